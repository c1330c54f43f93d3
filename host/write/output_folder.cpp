#include <vindex/core/error.hpp>
#include <vindex/core/leftovers.hpp>
#include <vindex/core/path_kind.hpp>
#include <vindex/write/output_folder.hpp>

#include <cerrno>
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

}  // namespace

OutputFolder::OutputFolder(std::string path) : path_(std::move(path)) {
  std::error_code error;
  const PathKind kind = path_kind(path_);
  if (kind != PathKind::kAbsent) {
    if (kind != PathKind::kFolder) {
      throw OutputError("E-OUTPUT-NOT-A-FOLDER", printable(path_) + " is not a folder");
    }
    remove_leftovers_in(path_);
    const bool empty = fs::is_empty(path_, error);
    if (error) {
      fail("read the folder", path_, error.value());
    }
    if (!empty) {
      throw OutputError(
          "E-OUTPUT-NOT-EMPTY",
          "the folder " + printable(path_) + " is not empty; name a new one, or empty it first");
    }
    return;
  }
  fs::create_directories(path_, error);
  if (error == std::errc::permission_denied) {
    fail("create the folder", path_, error.value());
  }
  if (error) {
    throw OutputError("E-OUTPUT-CREATE",
                      "cannot create the folder " + printable(path_) + ": " + error.message());
  }
  created_ = true;
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
  if (created_) {
    ::rmdir(path_.c_str());
  }
}

AtomicFile& OutputFolder::create(const std::string& name) {
  const std::string path = (fs::path(path_) / name).string();
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
  sync_folder(path_, kOutputErrors.folder);
  published_ = true;
}

}  // namespace vindex::write
