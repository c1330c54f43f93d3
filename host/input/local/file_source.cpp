// Owns sources over local files and memory, and errors of both.
#include "file_source.hpp"

#include "positional_read.hpp"

#include "core/files/reading_bounds.hpp"
#include "core/integers.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace vindex::input {

void throw_truncated(const std::string& name, std::uint64_t offset, std::uint64_t bytes,
                     std::uint64_t size) {
  throw FormatError(
      "E-TRUNCATED", fmt::format("{} at byte {}", name, offset),
      fmt::format("{} bytes are expected here, but the file ends at byte {}: fetch it "
                  "again, it is cut short or changed",
                  bytes, size));
}

namespace {
/// Linux transfers at most 0x7ffff000 bytes per call; smaller pieces also bound how long a signal
/// waits.
constexpr std::size_t kLargestTransfer = std::size_t{64} << 20U;

bool lies_within(const ReadRequest& request, std::uint64_t size) {
  const auto end = checked_add(request.offset, request.into.size());
  return end && *end <= size;
}

class FileSource final : public ByteSource {
 public:
  FileSource(int descriptor, std::string path, std::uint64_t size)
      : descriptor_(descriptor), path_(std::move(path)), name_(printable(path_)), size_(size) {}
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;
  ~FileSource() override { ::close(descriptor_); }

  const std::string& name() const override { return name_; }
  std::uint64_t size() const override { return size_; }
  int descriptor() const override { return descriptor_; }

  SourceIdentity identity() const override {
    struct stat status {};
    if (::fstat(descriptor_, &status) != 0) {
      throw SystemError("E-READ", errno, fmt::format("cannot query {}", name_));
    }
    const std::int64_t nanoseconds =
        std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
    return {static_cast<std::uint64_t>(status.st_size),
            fmt::format("{}:{}{}", status.st_ino, nanoseconds, is_in_place(status) ? "" : ":gone")};
  }

  void read_many(std::span<const ReadRequest> requests) override {
    const auto call = [this](void* into, std::size_t bytes, std::uint64_t offset) {
      return ::pread(descriptor_, into, bytes, static_cast<off_t>(offset));
    };
    for (const ReadRequest& request : requests) {
      if (!lies_within(request, size_)) {
        throw_truncated(name_, request.offset, request.into.size(), size_);
      }
      read_fully(call, name_, request.offset, request.into);
    }
  }

 private:
  /// Whether the path still leads to the file that was opened. A file that is replaced or removed
  /// keeps its content for whoever has it open: the results would be of a model that is no longer
  /// there.
  bool is_in_place(const struct stat& opened) const {
    struct stat named {};
    if (::stat(path_.c_str(), &named) != 0) {
      return errno != ENOENT && errno != ENOTDIR;
    }
    return named.st_dev == opened.st_dev && named.st_ino == opened.st_ino;
  }

  int descriptor_;
  std::string path_;
  std::string name_;
  std::uint64_t size_;
};

class MemorySource final : public ByteSource {
 public:
  MemorySource(std::string name, std::span<const std::byte> bytes)
      : name_(std::move(name)), bytes_(bytes) {}

  const std::string& name() const override { return name_; }
  std::uint64_t size() const override { return bytes_.size(); }
  SourceIdentity identity() const override { return {bytes_.size(), "memory"}; }

  void read_many(std::span<const ReadRequest> requests) override {
    for (const ReadRequest& request : requests) {
      if (!lies_within(request, bytes_.size())) {
        throw_truncated(name_, request.offset, request.into.size(), bytes_.size());
      }
      if (!request.into.empty()) {
        std::memcpy(request.into.data(), bytes_.data() + request.offset, request.into.size());
      }
    }
  }

 private:
  std::string name_;
  std::span<const std::byte> bytes_;
};

const char* kind_of(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFDIR:
      return "a folder";
    case S_IFIFO:
      return "a pipe (FIFO)";
    case S_IFSOCK:
      return "a socket";
    case S_IFCHR:
    case S_IFBLK:
      return "a device";
    default:
      return "no regular file";
  }
}

[[noreturn]] void throw_open_failed(const std::string& name, int error_number) {
  switch (error_number) {
    case ENOENT:
    case ENOTDIR:
    case ENAMETOOLONG:
      throw MissingInputError("E-FILE-MISSING", fmt::format("{}: no such file", name));
    case ENXIO:
      throw MissingInputError("E-FILE-KIND",
                              fmt::format("{} is a socket or device, not a file", name));
    default:
      throw SystemError("E-OPEN", error_number, fmt::format("cannot open {}", name));
  }
}
}  // namespace

void read_fully(const PositionalRead& call, const std::string& name, std::uint64_t offset,
                std::span<std::byte> into) {
  std::size_t done = 0;
  while (done < into.size()) {
    const std::size_t wanted = std::min(into.size() - done, kLargestTransfer);
    const ssize_t got = call(into.data() + done, wanted, offset + done);
    if (got > 0) {
      done += static_cast<std::size_t>(got);
    } else if (got == 0) {
      throw_truncated(name, offset, into.size(), offset + done);
    } else if (errno != EINTR) {
      throw SystemError(
          "E-READ", errno,
          fmt::format("cannot read {} bytes of {} at byte {}", wanted, name, offset + done));
    }
  }
}

std::unique_ptr<ByteSource> open_file_source(const std::string& path) {
  std::string name = printable(path);
  if (path.find('\0') != std::string::npos) {
    throw MissingInputError("E-FILE-MISSING", fmt::format("{}: no such file", name));
  }
  // O_NONBLOCK: opening a FIFO must not wait for a writer. It changes nothing for regular files.
  const int descriptor = open_to_read(path, O_NONBLOCK | O_NOCTTY);
  if (descriptor < 0) {
    throw_open_failed(name, errno);
  }
  struct stat status {};
  const int queried = ::fstat(descriptor, &status);
  if (queried != 0 || !S_ISREG(status.st_mode)) {
    const int error_number = errno;
    ::close(descriptor);
    if (queried != 0) {
      throw SystemError("E-OPEN", error_number, fmt::format("cannot query {}", name));
    }
    throw MissingInputError("E-FILE-KIND",
                            fmt::format("{} is {}, not a file", name, kind_of(status.st_mode)));
  }
  return std::make_unique<FileSource>(descriptor, path, static_cast<std::uint64_t>(status.st_size));
}

std::unique_ptr<ByteSource> make_memory_source(std::string name, std::span<const std::byte> bytes) {
  return std::make_unique<MemorySource>(std::move(name), bytes);
}

}  // namespace vindex::input
