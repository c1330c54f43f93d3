#include <vindex/core/error.hpp>
#include <vindex/synth/output_folder.hpp>

#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace vindex::synth {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const char* action, const std::string& path, int error_number) {
  const std::string reason = std::generic_category().message(error_number);
  std::string advice;
  if (error_number == ENOSPC || error_number == EDQUOT) {
    advice = "; free space or choose another folder, nothing was left behind";
  }
  throw SystemError(
      "E-OUTPUT-WRITE", error_number,
      std::string("cannot ") + action + " " + printable(path) + ": " + reason + advice);
}

}  // namespace

OutputFile::OutputFile(std::string path)
    : path_(std::move(path)), partial_path_(path_ + ".partial") {
  if (::access(path_.c_str(), F_OK) == 0) {
    throw OutputError("E-OUTPUT-EXISTS", printable(path_) + " exists already");
  }
  descriptor_ = ::open(partial_path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor_ < 0) {
    fail("create", partial_path_, errno);
  }
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
  if (!published_) {
    ::unlink(partial_path_.c_str());
  }
}

void OutputFile::write(std::uint64_t offset, std::span<const std::byte> bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = ::pwrite(descriptor_, bytes.data() + done, bytes.size() - done,
                                   static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count <= 0) {
      fail("write", partial_path_, count == 0 ? ENOSPC : errno);
    }
    done += static_cast<std::size_t>(count);
  }
}

void OutputFile::resize(std::uint64_t bytes) {
  if (::ftruncate(descriptor_, static_cast<off_t>(bytes)) != 0) {
    fail("extend", partial_path_, errno);
  }
}

void OutputFile::flush() {
  if (::fsync(descriptor_) != 0) {
    fail("write", partial_path_, errno);
  }
  const int descriptor = std::exchange(descriptor_, -1);
  if (::close(descriptor) != 0) {
    fail("write", partial_path_, errno);
  }
}

void OutputFile::publish() {
  expects(descriptor_ < 0 && !published_, "OutputFile::publish: once, after flush");
  if (::rename(partial_path_.c_str(), path_.c_str()) != 0) {
    fail("rename to", path_, errno);
  }
  published_ = true;
}

void OutputFile::withdraw() noexcept {
  if (published_) {
    ::unlink(path_.c_str());
  }
}

OutputFolder::OutputFolder(std::string path) : path_(std::move(path)) {
  std::error_code error;
  const fs::file_status status = fs::status(path_, error);
  if (fs::exists(status)) {
    if (!fs::is_directory(status)) {
      throw OutputError("E-OUTPUT-NOT-A-FOLDER", printable(path_) + " is not a folder");
    }
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
  if (created_) {
    ::rmdir(path_.c_str());
  }
}

OutputFile& OutputFolder::create(const std::string& name) {
  files_.push_back(std::make_unique<OutputFile>((fs::path(path_) / name).string()));
  return *files_.back();
}

void OutputFolder::write_text(const std::string& name, std::string_view text) {
  create(name).write(0, std::as_bytes(std::span(text)));
}

void OutputFolder::publish() {
  for (const auto& file : files_) {
    file->flush();
  }
  for (const auto& file : files_) {
    file->publish();
  }
  const int folder = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0 || ::fsync(folder) != 0) {
    const int error_number = errno;
    if (folder >= 0) {
      ::close(folder);
    }
    fail("write through", path_, error_number);
  }
  ::close(folder);
  published_ = true;
}

}  // namespace vindex::synth
