// Owns the folder aside: making, filling, publishing by renames that can be undone, removing.
#include "output_folder.hpp"

#include "core/files/atomic_file.hpp"
#include "core/files/path_kind.hpp"
#include "core/files/process_name.hpp"
#include "core/files/small_file.hpp"
#include "core/files/temporary_files.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <span>
#include <sstream>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace vindex::write {
namespace {

namespace fs = std::filesystem;

void make_folder(const std::string& folder) {
  if (::mkdir(folder.c_str(), 0777) != 0) {
    throw_output_error("E-OUTPUT-CREATE", errno, "cannot create the folder " + printable(folder));
  }
}

[[noreturn]] void refuse_content(const std::string& path) {
  throw OutputError("E-OUTPUT-NOT-EMPTY", "the folder " + printable(path) +
                                              " is not empty; name a new one, or empty it first");
}

/// Renames where nothing lies at `to`; an empty folder may be replaced where the file system knows
/// no better.
void rename_new(const std::string& from, const std::string& to) {
  int result = ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE);
  if (result != 0 && (errno == EINVAL || errno == ENOSYS)) {
    result = path_kind(to) == PathKind::kFile ? (errno = EEXIST, -1)
                                              : ::rename(from.c_str(), to.c_str());
  }
  if (result == 0) {
    return;
  }
  if ((errno == EEXIST || errno == ENOTEMPTY) && path_kind(to) == PathKind::kFolder) {
    refuse_content(to);
  }
  if (errno == EEXIST) {
    throw OutputError("E-OUTPUT-EXISTS", printable(to) +
                                             " exists already: made by somebody else "
                                             "meanwhile");
  }
  throw_output_error(kOutputErrors.rename, errno, "cannot rename to " + printable(to));
}

std::string without_slashes(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) {
    path.pop_back();
  }
  return path;
}

void require_empty(const std::string& path) {
  std::error_code error;
  const bool empty = fs::is_empty(path, error);
  if (error) {
    throw SystemError("E-OUTPUT-WRITE", error.value(), "cannot read the folder " + printable(path));
  }
  if (!empty) {
    refuse_content(path);
  }
}

/// In a folder whose files are being moved out of it: what they are.
constexpr const char* kMoves = ".moves";

/// One line of it: inode, time of the last change, name. Both go with a file that is renamed, and
/// not both with another one of its name.
std::string move_line(const std::string& path, const std::string& name) {
  struct stat status = {};
  if (::lstat(path.c_str(), &status) != 0) {
    throw SystemError(kOutputErrors.write, errno, "cannot examine " + printable(path));
  }
  return fmt::format("{} {}.{} {}\n", status.st_ino, status.st_mtim.tv_sec, status.st_mtim.tv_nsec,
                     name);
}

/// Removes what a killed process moved from `staging` into `folder`: it was not all of it.
void undo_moves(const std::string& staging, const std::string& folder) {
  std::istringstream lines(read_small_file(staging + "/" + kMoves, std::size_t{1} << 20U));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t space = line.find(' ', line.find(' ') + 1);
    const std::string name = space == std::string::npos ? "" : line.substr(space + 1);
    const std::string path = folder + "/" + name;
    struct stat status = {};
    if (!name.empty() && name.find('/') == std::string::npos &&
        ::lstat(path.c_str(), &status) == 0 && move_line(path, name) == line + "\n") {
      std::error_code ignored;  // a folder that is not empty then is told
      fs::remove_all(path, ignored);
    }
  }
}

}  // namespace

void OutputFolder::remove_stale_temporaries(const std::string& path) {
  if (path_kind(path) == PathKind::kFolder) {
    for (const std::string& stale : stale_temporaries_in(path)) {
      undo_moves(stale, path);
    }
    remove_stale_temporaries_in(path);
  }
  remove_stale_temporaries_of(without_slashes(path));
}

OutputFolder::OutputFolder(std::string path) : path_(without_slashes(std::move(path))) {
  const PathKind kind = path_kind(path_);
  if (kind == PathKind::kFile || kind == PathKind::kOther) {
    throw OutputError("E-OUTPUT-NOT-A-FOLDER", printable(path_) + " is not a folder");
  }
  is_new_ = kind == PathKind::kAbsent;
  if (is_new_) {
    struct stat link = {};
    if (path_.empty() || ::lstat(path_.c_str(), &link) == 0) {
      throw OutputError("E-OUTPUT-CREATE",
                        path_.empty() ? std::string("an empty name is not a folder to write to")
                                      : printable(path_) + " is a link that leads nowhere");
    }
    remove_stale_temporaries(path_);
    staging_ = temporary_name(path_);
  } else {
    remove_stale_temporaries(path_);
    require_empty(path_);
    staging_ = temporary_name(path_ + "/part");
  }
  try {
    make_parents();
    make_folder(staging_);
  } catch (...) {
    remove_everything();
    throw;
  }
}

void OutputFolder::make_parents() {
  std::vector<std::string> absent;
  std::string folder = is_new_ ? without_slashes(folder_of(path_)) : path_;
  // "." may be absent too: a working folder that was removed.
  while (folder != "." && folder != "/" && path_kind(folder) == PathKind::kAbsent) {
    absent.push_back(folder);
    folder = without_slashes(folder_of(folder));
  }
  for (auto each = absent.rbegin(); each != absent.rend(); ++each) {
    if (path_kind(*each) != PathKind::kFolder) {  // somebody else may need it too
      make_folder(*each);
      parents_.push_back(*each);
    }
  }
}

OutputFolder::~OutputFolder() {
  if (!published_) {
    remove_everything();
  }
}

void OutputFolder::remove_everything() noexcept {
  for (const auto& file : files_) {
    file->withdraw();
  }
  files_.clear();
  for (const std::string& folder : inner_) {
    ::rmdir((staging_ + "/" + folder).c_str());
  }
  for (const std::string& folder : moved_) {
    ::rmdir(folder.c_str());
  }
  ::unlink((staging_ + "/" + kMoves).c_str());
  ::rmdir(staging_.c_str());
  for (auto each = parents_.rbegin(); each != parents_.rend(); ++each) {
    ::rmdir(each->c_str());
  }
}

void OutputFolder::require_space(std::uint64_t bytes) const {
  require_free_space(staging_ + "/" + file_name_of(path_), bytes);
}

AtomicFile& OutputFolder::create(const std::string& name) {
  const std::string folder = folder_of(name);
  const std::lock_guard lock(mutex_);
  if (folder != "." && !inner_.contains(folder)) {
    make_folder(staging_ + "/" + folder);
    inner_.insert(folder);
  }
  files_.push_back(
      std::make_unique<AtomicFile>(path_ + "/" + name, staging_ + "/" + name, kOutputErrors));
  return *files_.back();
}

void OutputFolder::drop(AtomicFile& file) {
  const std::string path = file.temporary_path();
  const std::lock_guard lock(mutex_);
  std::erase_if(files_, [&](const auto& each) { return each.get() == &file; });
  remove_file(path);  // a destructor cannot say that it failed, and the folder would have it
}

void OutputFolder::write_text(const std::string& name, std::string_view text) {
  create(name).write(0, std::as_bytes(std::span(text)));
}

void OutputFolder::publish() {
  for (const auto& file : files_) {
    file->flush();
  }
  for (const std::string& folder : inner_) {
    sync_folder(staging_ + "/" + folder, kOutputErrors.folder);
  }
  if (is_new_) {
    sync_folder(staging_, kOutputErrors.folder);
    rename_new(staging_, path_);
    for (const auto& file : files_) {
      file->rename();
    }
    published_ = true;  // whatever becomes of the next calls: its files have their names
    sync_folder(folder_of(path_), kOutputErrors.folder);
    for (const std::string& parent : parents_) {
      sync_folder(folder_of(parent), kOutputErrors.folder);
    }
  } else {
    move_out();
    sync_folder(path_, kOutputErrors.folder);
  }
  published_ = true;
}

/// Entry by entry, folders first; a file beside them lets the next one undo what a kill interrupts.
void OutputFolder::move_out() {
  std::vector<std::string> names(inner_.begin(), inner_.end());
  for (const auto& file : files_) {
    const std::string name = file->path().substr(path_.size() + 1);
    if (name.find('/') == std::string::npos) {
      names.push_back(name);
    }
  }
  std::string moves;
  for (const std::string& name : names) {
    moves += move_line(staging_ + "/" + name, name);
  }
  const std::string list = staging_ + "/" + kMoves;
  {
    AtomicFile file(list, kOutputErrors);
    file.write(0, std::as_bytes(std::span(moves)));
    file.publish();
  }
  for (const std::string& name : names) {
    const std::string to = path_ + "/" + name;
    rename_new(staging_ + "/" + name, to);
    moved_.push_back(to);
    for (const auto& file : files_) {
      if (file->path() == to || file->path().starts_with(to + "/")) {
        file->rename();
      }
    }
  }
  remove_file(list);
  ::rmdir(staging_.c_str());
}

}  // namespace vindex::write
