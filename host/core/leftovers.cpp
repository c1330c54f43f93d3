#include <vindex/core/atomic_file.hpp>
#include <vindex/core/leftovers.hpp>
#include <vindex/core/process_name.hpp>

#include <fmt/format.h>

#include <atomic>
#include <charconv>
#include <cstdint>
#include <ctime>
#include <dirent.h>
#include <filesystem>
#include <memory>
#include <string_view>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace vindex {

namespace {
constexpr std::string_view kMark = ".tmp.";

/// Owner of a temporary file, from its name; empty host if the name is none of ours.
struct Owner {
  std::string host;
  std::string start;
  std::int64_t pid = 0;
};

/// Of "HOST.PID.START.NUMBER"; earlier versions had no start.
Owner owner_of(const std::string& suffix) {
  const std::size_t dot = suffix.find('.');
  if (dot == std::string::npos) {
    return {};
  }
  Owner owner{suffix.substr(0, dot), "", 0};
  const char* last = suffix.data() + suffix.size();
  const auto [end, error] = std::from_chars(suffix.data() + dot + 1, last, owner.pid);
  if (error != std::errc() || end == last || *end != '.') {
    return {};
  }
  const std::string rest(end + 1, last);
  const std::size_t second = rest.find('.');
  owner.start = second == std::string::npos ? "" : rest.substr(0, second);
  return owner;
}

/// Those of the file `of`; of every file where it is empty.
void remove_in(const std::string& folder, std::string_view of) {
  constexpr std::time_t kForeignSeconds = 24 * 3600;
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(opendir(folder.c_str()), closedir);
  if (!listing) {
    return;
  }
  while (const dirent* entry = readdir(listing.get())) {
    const std::string name = entry->d_name;
    const std::size_t at = name.rfind(kMark);
    if (at == std::string::npos || (!of.empty() && name.substr(0, at) != of)) {
      continue;
    }
    const Owner owner = owner_of(name.substr(at + kMark.size()));
    const std::string path = folder + "/" + name;
    struct stat status = {};
    if (owner.host.empty() || stat(path.c_str(), &status) != 0) {
      continue;
    }
    // A process number says nothing of another machine; there only age does.
    const bool ours = owner.host == host_name();
    if (ours ? process_is_gone(owner.pid, owner.start)
             : std::time(nullptr) - status.st_mtime > kForeignSeconds) {
      std::error_code ignored;  // what cannot be removed goes with the next run
      std::filesystem::remove_all(path, ignored);
    }
  }
}
}  // namespace

std::string temporary_name(const std::string& path) {
  static std::atomic<unsigned> sequence{0};
  const std::string start = process_start(getpid());
  return fmt::format("{}{}{}.{}.{}{}", path, kMark, host_name(), getpid(),
                     start.empty() ? "" : start + ".", sequence++);
}

void remove_leftovers_of(const std::string& path) {
  remove_in(folder_of(path), file_name_of(path));
}

void remove_leftovers_in(const std::string& folder) { remove_in(folder, {}); }

}  // namespace vindex
