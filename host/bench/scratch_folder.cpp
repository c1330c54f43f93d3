// Owns making a folder with a name of its own, and removing it.
#include "scratch_folder.hpp"

#include <vindex/core/error.hpp>

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>

namespace vindex::bench {

ScratchFolder::ScratchFolder(const std::string& parent) {
  std::string pattern = (std::filesystem::path(parent) / "vindex-bench-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) {
    throw SystemError("E-SCRATCH", errno,
                      fmt::format("no folder can be made in {}", printable(parent)));
  }
  path_ = pattern;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace vindex::bench
