// Owns telling whose a temporary name is, and whether its owner is gone.
#include "temporary_files.hpp"

#include "path_kind.hpp"
#include "process_name.hpp"

#include <fmt/format.h>

#include <algorithm>
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
#include <unordered_set>

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

/// When anything in the folder last changed: one that grows is not stale.
std::time_t last_change(const std::string& path, const struct stat& status) {
  std::time_t last = status.st_mtime;
  if (!S_ISDIR(status.st_mode)) {
    return last;
  }
  std::error_code error;
  std::filesystem::recursive_directory_iterator entry(path, error);
  for (; !error && entry != std::filesystem::recursive_directory_iterator();
       entry.increment(error)) {
    struct stat inner = {};
    if (lstat(entry->path().c_str(), &inner) == 0) {
      last = std::max(last, inner.st_mtime);
    }
  }
  return last;
}

/// Those of the outputs `of`; of every one where it is null.
std::vector<std::string> find_in(const std::string& folder,
                                 const std::unordered_set<std::string>* of) {
  constexpr std::time_t kForeignSeconds = 24 * 3600;
  std::vector<std::string> gone;
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(opendir(folder.c_str()), closedir);
  while (const dirent* entry = listing ? readdir(listing.get()) : nullptr) {
    const std::string name = entry->d_name;
    const std::size_t at = name.rfind(kMark);
    if (at == std::string::npos || (of != nullptr && !of->contains(name.substr(0, at)))) {
      continue;
    }
    const Owner owner = owner_of(name.substr(at + kMark.size()));
    const std::string path = folder + "/" + name;
    struct stat status = {};
    if (owner.host.empty() || lstat(path.c_str(), &status) != 0) {
      continue;
    }
    // A process number says nothing of another machine; there only age does.
    const bool ours = owner.host == host_name();
    if (ours ? process_is_gone(owner.pid, owner.start)
             : std::time(nullptr) - last_change(path, status) > kForeignSeconds) {
      gone.push_back(path);
    }
  }
  return gone;
}

void remove_all(const std::vector<std::string>& gone) {
  for (const std::string& path : gone) {
    std::error_code ignored;  // the next one tries again
    std::filesystem::remove_all(path, ignored);
  }
}
}  // namespace

std::string temporary_name(const std::string& path) {
  static std::atomic<unsigned> sequence{0};
  const std::string start = process_start(getpid());
  return fmt::format("{}{}{}.{}.{}{}", path, kMark, host_name(), getpid(),
                     start.empty() ? "" : start + ".", sequence++);
}

void remove_stale_temporaries_of(const std::string& path) {
  remove_stale_temporaries_of(std::span(&path, 1));
}

void remove_stale_temporaries_of(std::span<const std::string> paths) {
  std::unordered_set<std::string> names;
  for (const std::string& path : paths) {
    names.insert(file_name_of(path));
  }
  if (!paths.empty()) {
    remove_all(find_in(folder_of(paths.front()), &names));
  }
}

void remove_stale_temporaries_in(const std::string& folder) {
  remove_all(stale_temporaries_in(folder));
}

std::vector<std::string> stale_temporaries_in(const std::string& folder) {
  return find_in(folder, nullptr);
}

}  // namespace vindex
