// Owns the rules by which a target is refused.
#include "output_target.hpp"

#include "path_kind.hpp"
#include "reading_bounds.hpp"

#include <vindex/error.hpp>

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <map>
#include <optional>
#include <unistd.h>

namespace vindex {

namespace {
constexpr std::array<char, 8> kHdf5 = {'\x89', 'H', 'D', 'F', '\r', '\n', '\x1a', '\n'};

/// Whether the file begins as an HDF5 file does. What cannot be read might be one.
bool is_hdf5(const std::string& path) {
  const int descriptor = open_to_read(path, O_NONBLOCK | O_NOCTTY);
  std::array<char, kHdf5.size()> beginning{};
  ssize_t got = -1;
  do {
    got = descriptor < 0 ? -1 : ::pread(descriptor, beginning.data(), beginning.size(), 0);
  } while (descriptor >= 0 && got < 0 && errno == EINTR);
  const int error = errno;
  if (descriptor >= 0) {
    ::close(descriptor);
  }
  if (got < 0) {
    throw SystemError("E-OPEN", error,
                      fmt::format("cannot read {}, which is to be replaced", printable(path)));
  }
  return got == static_cast<ssize_t>(beginning.size()) && beginning == kHdf5;
}
}  // namespace

void require_file_target(const std::string& path, const char* id) {
  if (path.empty()) {
    throw OutputError(id, "an empty name is not a file to write to");
  }
  const PathKind kind = path_kind(path);
  if (kind == PathKind::kFolder || kind == PathKind::kOther) {
    throw OutputError(id, fmt::format("{}: exists and is {}; choose another name", printable(path),
                                      kind == PathKind::kFolder ? "a folder" : "no regular file"));
  }
}

void require_free_target(const std::string& path, bool replace, const char* flag) {
  require_file_target(path);
  if (path_kind(path) == PathKind::kAbsent) {
    return;
  }
  if (is_hdf5(path)) {
    throw OutputError("E-OUTPUT-RESULTS",
                      fmt::format("{}: a results file (HDF5) is never replaced, not with {} "
                                  "either; choose another name",
                                  printable(path), flag));
  }
  if (!replace) {
    throw OutputError("E-OUTPUT-EXISTS",
                      fmt::format("{} exists; {} replaces it", printable(path), flag));
  }
}

void require_no_input(std::span<const std::string> targets, std::span<const std::string> inputs) {
  namespace fs = std::filesystem;
  std::map<FileIdentity, std::string> taken;  // by the target's identity and its folders'
  const auto take = [&](const std::string& path, const std::string& target) {
    if (const auto there = file_identity(path)) {
      taken.emplace(*there, target);
    }
  };
  for (const std::string& target : targets) {
    if (target.empty()) {
      continue;
    }
    take(target, target);
    std::error_code failure;
    fs::path folder = fs::weakly_canonical(target, failure).parent_path();
    while (!folder.empty()) {
      if (is_folder(folder)) {
        take(folder.string(), target);
      }
      folder = folder == folder.parent_path() ? fs::path() : folder.parent_path();
    }
  }
  for (std::size_t i = 0; !taken.empty() && i < inputs.size(); ++i) {
    const auto input = inputs[i].empty() ? std::nullopt : file_identity(inputs[i]);
    const auto found = input ? taken.find(*input) : taken.end();
    if (found != taken.end()) {
      throw OutputError("E-OUTPUT-SOURCE",
                        fmt::format("{}: belongs to a model that is read, or to what says how; "
                                    "choose another name",
                                    printable(found->second)));
    }
  }
}

}  // namespace vindex
