// Owns appending records to that file, finding them again, and doubting what another process wrote.
#include "shard_copy.hpp"

#include "core/digest.hpp"
#include "core/files/small_file.hpp"
#include "core/integers.hpp"
#include "input/local/positional_read.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace vindex::input {

namespace {

static_assert(std::endian::native == std::endian::little, "numbers of the file as they lie here");

constexpr const char* kShardMagic = "vindex-copy/1\n";
constexpr std::uint64_t kPieceBytes = 1U << 20U;

struct RecordHead {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  Sha256Digest digest{};
};
static_assert(sizeof(RecordHead) == 48);

/// Of the numbers of `head`; the payload is added by the caller.
Sha256 begin_digest(const RecordHead& head) {
  Sha256 digest;
  digest.update(std::as_bytes(std::span(&head.offset, 1)));
  digest.update(std::as_bytes(std::span(&head.bytes, 1)));
  return digest;
}

/// False: errno says why.
bool write_all(int descriptor, std::uint64_t at, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(descriptor, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count <= 0) {
      errno = count == 0 ? EIO : errno;
      return false;
    }
    at += static_cast<std::uint64_t>(count);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return true;
}

/// False where the file ends before, or cannot be read.
bool read_all(int descriptor, std::uint64_t at, std::span<std::byte> into) {
  try {
    const auto call = [descriptor](void* to, std::size_t bytes, std::uint64_t offset) {
      return ::pread(descriptor, to, bytes, static_cast<off_t>(offset));
    };
    read_fully(call, "a copy", at, into);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

ShardCopy::ShardCopy(std::string path, const std::string& subject) : path_(std::move(path)) {
  open(kShardMagic + printable(subject) + "\n");
}

ShardCopy::~ShardCopy() { close_file(); }

void ShardCopy::close_file() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
    descriptor_ = -1;
  }
  records_.clear();
}

void ShardCopy::give_up(const std::string& why, int error) {
  error_ = fmt::format("{}: {}{}{}", printable(path_), why, error == 0 ? "" : ": ",
                       error == 0 ? "" : std::strerror(error));
}

void ShardCopy::open(const std::string& heading) {
  descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (descriptor_ < 0) {
    return give_up("cannot be created", errno);
  }
  // The kernel takes it back however the process ends.
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    give_up(errno == EWOULDBLOCK ? "another process keeps it" : "cannot be locked",
            errno == EWOULDBLOCK ? 0 : errno);
    return close_file();
  }
  // Under another name it may be anybody's: a hard link that was put in its place.
  struct stat status {};
  if (!is_own_file(descriptor_) || ::fstat(descriptor_, &status) != 0) {
    give_up("is no file of its own", 0);
    return close_file();
  }
  const auto bytes = static_cast<std::uint64_t>(status.st_size);
  std::string found(heading.size(), '\0');
  const bool is_known = bytes >= heading.size() &&
                        read_all(descriptor_, 0, std::as_writable_bytes(std::span(found))) &&
                        found == heading;
  end_ = heading.size();
  if (is_known) {
    read_records(heading.size(), bytes);
  }
  if ((end_ != bytes && ::ftruncate(descriptor_, static_cast<off_t>(is_known ? end_ : 0)) != 0) ||
      (!is_known && !write_all(descriptor_, 0, std::as_bytes(std::span(heading))))) {
    give_up("cannot be written", errno);
    close_file();
  }
}

void ShardCopy::read_records(std::uint64_t from, std::uint64_t file_bytes) {
  RecordHead head;
  while (file_bytes - from > sizeof(head) &&
         read_all(descriptor_, from, std::as_writable_bytes(std::span(&head, 1)))) {
    const std::uint64_t at = from + sizeof(head);
    if (head.bytes == 0 || head.bytes > file_bytes - at || !checked_add(head.offset, head.bytes)) {
      return;
    }
    // A record that overlaps another is damage, and what follows may be too.
    const auto next = records_.lower_bound(head.offset);
    const bool overlaps = (next != records_.end() && next->first < head.offset + head.bytes) ||
                          (next != records_.begin() &&
                           std::prev(next)->first + std::prev(next)->second.bytes > head.offset);
    if (overlaps) {
      return;
    }
    records_[head.offset] = {.bytes = head.bytes, .at = at};
    from = end_ = at + head.bytes;
  }
}

ShardCopy::Records::iterator ShardCopy::covering(std::uint64_t offset) {
  auto found = records_.upper_bound(offset);
  if (found == records_.begin()) {
    return records_.end();
  }
  --found;
  return offset - found->first < found->second.bytes ? found : records_.end();
}

bool ShardCopy::covers(std::uint64_t offset, std::uint64_t bytes) {
  const std::uint64_t end = offset + bytes;
  while (offset < end) {
    const auto found = covering(offset);
    if (found == records_.end()) {
      return false;
    }
    offset = found->first + found->second.bytes;
  }
  return true;
}

bool ShardCopy::is_intact(std::uint64_t offset, Record& record) {
  if (record.is_ours) {
    return true;
  }
  RecordHead head;
  if (!read_all(descriptor_, record.at - sizeof(head),
                std::as_writable_bytes(std::span(&head, 1))) ||
      head.offset != offset || head.bytes != record.bytes) {
    return false;
  }
  Sha256 digest = begin_digest(head);
  std::vector<std::byte> piece;
  for (std::uint64_t done = 0; done < record.bytes; done += piece.size()) {
    piece.resize(static_cast<std::size_t>(std::min(kPieceBytes, record.bytes - done)));
    if (!read_all(descriptor_, record.at + done, piece)) {
      return false;
    }
    digest.update(piece);
  }
  record.is_ours = digest.finish() == head.digest;
  return record.is_ours;
}

bool ShardCopy::read(const ReadRequest& request) {
  const std::lock_guard lock(mutex_);
  if (descriptor_ < 0 || !covers(request.offset, request.into.size())) {
    return false;
  }
  std::span<std::byte> into = request.into;
  std::uint64_t offset = request.offset;
  while (!into.empty()) {
    const auto found = covering(offset);
    const std::uint64_t skipped = offset - found->first;
    const auto bytes = static_cast<std::size_t>(
        std::min<std::uint64_t>(found->second.bytes - skipped, into.size()));
    if (!is_intact(found->first, found->second) ||
        !read_all(descriptor_, found->second.at + skipped, into.first(bytes))) {
      give_up("a range of the copy is damaged and is fetched again", 0);
      records_.erase(found);
      return false;
    }
    into = into.subspan(bytes);
    offset += bytes;
  }
  return true;
}

std::uint64_t ShardCopy::add(std::uint64_t offset, std::span<const std::byte> bytes) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t before = end_;
  if (descriptor_ < 0) {
    return 0;
  }
  // Parts that are here already stay; gaps become records of their own.
  while (!bytes.empty()) {
    const auto found = covering(offset);
    const auto next = records_.upper_bound(offset);
    std::uint64_t length = bytes.size();
    if (found != records_.end()) {
      length = std::min(length, found->first + found->second.bytes - offset);
    } else {
      length = next == records_.end() ? length : std::min(length, next->first - offset);
      RecordHead head{.offset = offset, .bytes = length};
      const auto payload = bytes.first(static_cast<std::size_t>(length));
      Sha256 digest = begin_digest(head);
      digest.update(payload);
      head.digest = digest.finish();
      if (!write_all(descriptor_, end_, std::as_bytes(std::span(&head, 1))) ||
          !write_all(descriptor_, end_ + sizeof(head), payload)) {
        give_up("a range could not be kept", errno);
        // A record half-written would be taken for damage by the next process: it is cut off.
        (void)!::ftruncate(descriptor_, static_cast<off_t>(end_));
        break;
      }
      records_[offset] = {.bytes = length, .at = end_ + sizeof(head), .is_ours = true};
      end_ += sizeof(head) + length;
    }
    offset += length;
    bytes = bytes.subspan(static_cast<std::size_t>(length));
  }
  return end_ - before;
}

std::uint64_t ShardCopy::record_bytes(std::uint64_t bytes) { return sizeof(RecordHead) + bytes; }

std::uint64_t ShardCopy::file_bytes() const {
  const std::lock_guard lock(mutex_);
  return descriptor_ < 0 ? 0 : end_;
}

void ShardCopy::remove() {
  const std::lock_guard lock(mutex_);
  if (descriptor_ >= 0) {
    // Under the lock: another process that waits for the name finds none.
    if (::unlink(path_.c_str()) != 0 && errno != ENOENT) {
      give_up("cannot be removed", errno);
    }
    close_file();
  }
}

std::string ShardCopy::error() const {
  const std::lock_guard lock(mutex_);
  return error_;
}

}  // namespace vindex::input
