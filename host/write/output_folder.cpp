#include <vindex/core/error.hpp>
#include <vindex/core/leftovers.hpp>
#include <vindex/core/path_kind.hpp>
#include <vindex/write/output_folder.hpp>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <span>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace vindex::write {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const char* action, const std::string& path, int error_number) {
  throw SystemError("E-OUTPUT-WRITE", error_number,
                    std::string("cannot ") + action + " " + printable(path));
}

[[noreturn]] void refuse_content(const std::string& path) {
  throw OutputError("E-OUTPUT-NOT-EMPTY", "the folder " + printable(path) +
                                              " is not empty; name a new one, or empty it first");
}

/// Those that are empty, the last first.
void remove_folders(const std::vector<std::string>& folders) {
  for (auto folder = folders.rbegin(); folder != folders.rend(); ++folder) {
    ::rmdir(folder->c_str());
  }
}

}  // namespace

OutputFolder::OutputFolder(std::string path) : path_(std::move(path)) {
  while (path_.size() > 1 && path_.ends_with('/')) {
    path_.pop_back();  // a temporary name lies beside it and not in it
  }
  remove_leftovers_of(path_);
  const PathKind kind = path_kind(path_);
  if (kind == PathKind::kAbsent) {
    create_parents();
    work_ = temporary_name(path_);
    if (::mkdir(work_.c_str(), 0777) != 0) {
      const int error = errno;
      remove_folders(parents_);
      throw_output_error("E-OUTPUT-CREATE", error, "cannot create the folder " + printable(path_));
    }
    return;
  }
  if (kind != PathKind::kFolder) {
    throw OutputError("E-OUTPUT-NOT-A-FOLDER", printable(path_) + " is not a folder");
  }
  work_ = path_;
  remove_leftovers_in(path_);
  std::error_code error;
  const bool empty = fs::is_empty(path_, error);
  if (error) {
    fail("read the folder", path_, error.value());
  }
  if (!empty) {
    refuse_content(path_);
  }
}

void OutputFolder::create_parents() {
  std::vector<std::string> absent;
  for (std::string parent = folder_of(path_); path_kind(parent) == PathKind::kAbsent;
       parent = folder_of(parent)) {
    absent.push_back(parent);
  }
  for (auto parent = absent.rbegin(); parent != absent.rend(); ++parent) {
    if (::mkdir(parent->c_str(), 0777) == 0) {
      parents_.push_back(*parent);
    } else if (errno != EEXIST) {
      const int error = errno;
      remove_folders(parents_);
      throw_output_error("E-OUTPUT-CREATE", error,
                         "cannot create the folder " + printable(*parent));
    }
  }
}

OutputFolder::~OutputFolder() {
  if (published_) {
    return;
  }
  for (const auto& file : files_) {
    file->withdraw();
  }
  files_.clear();
  for (const std::string& folder : inner_) {
    ::rmdir(folder.c_str());
  }
  if (work_ != path_) {
    ::rmdir(work_.c_str());
  }
  remove_folders(parents_);
}

void OutputFolder::require_space(std::uint64_t bytes) const {
  require_free_space(work_ + "/.", bytes);
}

AtomicFile& OutputFolder::create(const std::string& name) {
  const std::string path = (fs::path(work_) / name).string();
  const std::string folder = folder_of(path);
  const std::lock_guard lock(mutex_);
  if (folder_of(name) != "." && !inner_.contains(folder)) {
    if (::mkdir(folder.c_str(), 0777) != 0) {
      throw_output_error("E-OUTPUT-CREATE", errno, "cannot create the folder " + printable(folder));
    }
    inner_.insert(folder);
  }
  if (path_kind(path) != PathKind::kAbsent) {
    throw OutputError("E-OUTPUT-EXISTS", printable(path) + " exists already");
  }
  files_.push_back(std::make_unique<AtomicFile>(path, kOutputErrors));
  return *files_.back();
}

void OutputFolder::drop(AtomicFile& file) {
  const std::lock_guard lock(mutex_);
  std::erase_if(files_, [&](const auto& each) { return each.get() == &file; });
}

void OutputFolder::write_text(const std::string& name, std::string_view text) {
  create(name).write(0, std::as_bytes(std::span(text)));
}

void OutputFolder::publish() {
  for (const auto& file : files_) {
    file->flush();
  }
  for (const auto& file : files_) {
    file->rename();
  }
  for (const std::string& folder : inner_) {
    sync_folder(folder, kOutputErrors.folder);
  }
  sync_folder(work_, kOutputErrors.folder);
  if (work_ != path_) {
    if (::rename(work_.c_str(), path_.c_str()) != 0) {
      if (errno == ENOTEMPTY || errno == EEXIST) {
        refuse_content(path_);
      }
      throw_output_error(kOutputErrors.rename, errno, "cannot rename to " + printable(path_));
    }
    published_ = true;  // whatever becomes of the next call: its files have their names
    sync_folder(folder_of(path_), kOutputErrors.folder);
  }
  published_ = true;
}

}  // namespace vindex::write
