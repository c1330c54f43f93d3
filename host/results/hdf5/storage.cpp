// Owns memory, files, and the callbacks of the HDF5 driver over them.
#include "storage.hpp"

#include "core/files/reading_bounds.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace vindex::results {

bool MemoryStorage::read(std::uint64_t offset, std::span<std::byte> out) noexcept {
  const std::uint64_t from = std::min<std::uint64_t>(offset, bytes_.size());
  const std::size_t count = std::min<std::size_t>(bytes_.size() - from, out.size());
  std::memcpy(out.data(), bytes_.data() + from, count);
  std::memset(out.data() + count, 0, out.size() - count);
  return true;
}

bool MemoryStorage::write(std::uint64_t offset, std::span<const std::byte> bytes) noexcept {
  try {
    if (offset + bytes.size() > bytes_.size()) {
      bytes_.resize(offset + bytes.size());
    }
  } catch (const std::exception&) {
    return false;
  }
  std::memcpy(bytes_.data() + offset, bytes.data(), bytes.size());
  return true;
}

bool MemoryStorage::resize(std::uint64_t size) noexcept {
  try {
    bytes_.resize(size);
  } catch (const std::exception&) {
    return false;
  }
  return true;
}

void MemoryStorage::expect(std::uint64_t bytes) noexcept {
  try {
    bytes_.reserve(bytes);
  } catch (const std::exception&) {
    // As before.
  }
}

FileStorage FileStorage::open(const std::string& path) {
  // Without O_NONBLOCK the opening of a FIFO waits for a writer that may never come.
  const int descriptor = open_to_read(path, O_NONBLOCK);
  if (descriptor < 0) {
    const int error = errno;
    if (error == ENOENT || error == ENOTDIR) {
      throw MissingInputError("E-RESULTS-MISSING", printable(path) + " does not exist");
    }
    throw SystemError("E-RESULTS-OPEN", error, "cannot open " + printable(path));
  }
  FileStorage storage(descriptor, path, true);
  struct stat status = {};
  if (fstat(descriptor, &status) != 0) {
    throw SystemError("E-RESULTS-OPEN", errno, "cannot examine " + printable(path));
  }
  if (!S_ISREG(status.st_mode)) {
    throw MissingInputError("E-RESULTS-KIND", printable(path) + " is not a regular file");
  }
  storage.size_ = static_cast<std::uint64_t>(status.st_size);
  return storage;
}

FileStorage FileStorage::borrow(int descriptor, std::string path) {
  return FileStorage(descriptor, std::move(path), false);
}

FileStorage::FileStorage(int descriptor, std::string path, bool owned)
    : descriptor_(descriptor), owned_(owned), path_(std::move(path)) {}

FileStorage::FileStorage(FileStorage&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      owned_(other.owned_),
      path_(std::move(other.path_)),
      size_(other.size_),
      write_error_(other.write_error_),
      read_error_(other.read_error_),
      unwritten_(std::move(other.unwritten_)) {}

FileStorage::~FileStorage() {
  if (owned_ && descriptor_ >= 0) {
    ::close(descriptor_);
  }
}

bool FileStorage::read_file(std::uint64_t offset, std::span<std::byte> out) noexcept {
  std::size_t done = 0;
  while (done < out.size()) {
    const ssize_t count = ::pread(descriptor_, out.data() + done, out.size() - done,
                                  static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      read_error_ = errno;
      return false;
    }
    if (count == 0) {
      break;
    }
    done += static_cast<std::size_t>(count);
  }
  std::memset(out.data() + done, 0, out.size() - done);
  return true;
}

bool FileStorage::read(std::uint64_t offset, std::span<std::byte> out) noexcept {
  if (!read_file(offset, out)) {
    return false;
  }
  for (const auto& [start, bytes] : unwritten_) {
    const std::uint64_t from = std::max(start, offset);
    const std::uint64_t to = std::min(start + bytes.size(), offset + out.size());
    if (from < to) {
      std::memcpy(out.data() + (from - offset), bytes.data() + (from - start), to - from);
    }
  }
  return true;
}

bool FileStorage::write(std::uint64_t offset, std::span<const std::byte> bytes) noexcept {
  size_ = std::max(size_, offset + bytes.size());
  std::size_t done = 0;
  while (done < bytes.size() && write_error_ == 0) {
    const ssize_t count = ::pwrite(descriptor_, bytes.data() + done, bytes.size() - done,
                                   static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count <= 0) {
      write_error_ = count < 0 ? errno : ENOSPC;
      break;
    }
    done += static_cast<std::size_t>(count);
  }
  if (write_error_ != 0) {
    try {
      unwritten_[offset].assign(bytes.begin(), bytes.end());
    } catch (const std::bad_alloc&) {
      return false;  // the error of the write is the one to report
    }
  }
  return true;
}

bool FileStorage::resize(std::uint64_t size) noexcept {
  if (write_error_ == 0 && ::ftruncate(descriptor_, static_cast<off_t>(size)) != 0) {
    write_error_ = errno;
  }
  size_ = size;
  return true;
}

void FileStorage::rethrow_failure() const {
  if (write_error_ != 0) {
    throw SystemError("E-OUT-WRITE", write_error_, "cannot write " + printable(path_));
  }
  if (read_error_ != 0) {
    throw SystemError("E-RESULTS-READ", read_error_, "cannot read " + printable(path_));
  }
}

}  // namespace vindex::results
