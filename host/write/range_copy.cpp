// Owns the three ways of copying a range, and which of them a file system grants.
#include "range_copy.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <linux/fs.h>
#include <mutex>
#include <span>
#include <sys/ioctl.h>
#include <unistd.h>

namespace vindex::write {
namespace {

/// Between reading, digesting and writing it stays in cache; writers take turns with so much.
constexpr std::uint64_t kRangeBufferBytes = std::uint64_t{256} << 10U;
/// Between two looks at the stop token.
constexpr std::uint64_t kKernelBytes = std::uint64_t{32} << 20U;
/// Smaller ranges are not worth a call of their own for what lies around whole blocks.
constexpr std::uint64_t kMinCloned = std::uint64_t{64} << 10U;
/// Of every file system that shares blocks; another answers EINVAL and the bytes are copied.
constexpr std::uint64_t kBlockBytes = 4096;

/// The turn of a writer, where they take turns.
std::unique_lock<std::mutex> turn_of(const RangeCopy& range) {
  return range.turn == nullptr ? std::unique_lock<std::mutex>() : std::unique_lock(*range.turn);
}

RangeCopy range_part(const RangeCopy& range, std::uint64_t begin, std::uint64_t bytes) {
  RangeCopy part = range;
  part.source_offset += begin;
  part.file_offset += begin;
  part.bytes = bytes;
  return part;
}

}  // namespace

bool can_share_blocks(const ByteSource& source, AtomicFile& file) {
  struct file_clone_range request = {};
  request.src_fd = source.descriptor();
  request.src_length = kBlockBytes;
  if (source.descriptor() < 0 || source.size() < kBlockBytes ||
      ::ioctl(file.descriptor(), FICLONERANGE, &request) != 0) {
    return false;
  }
  file.resize(0);
  return true;
}

bool RangeCopier::run(const RangeCopy& range, Sha256* digest) {
  if (range.bytes == 0 || stopped()) {
    return !stopped();
  }
  const bool cloned = clone(range);
  bool going = true;
  if (cloned) {
    going = digest == nullptr || by_hand(range, digest, false);
  } else if (range.source->descriptor() >= 0 && digest == nullptr) {
    RangeCopy rest = range;
    going = by_kernel(rest) && by_hand(rest, nullptr, true);
  } else {
    going = by_hand(range, digest, true);
  }
  // Begins writing to the device; what fails shows up in fsync.
  (void)::sync_file_range(range.file->descriptor(), static_cast<off64_t>(range.file_offset),
                          static_cast<off64_t>(range.bytes), SYNC_FILE_RANGE_WRITE);
  return going;
}

bool RangeCopier::clone(const RangeCopy& range) {
  const std::uint64_t begin =
      (kBlockBytes - range.source_offset % kBlockBytes) % kBlockBytes;  // of the first whole block
  if (range.source->descriptor() < 0 || range.bytes < begin + kMinCloned ||
      range.source_offset % kBlockBytes != range.file_offset % kBlockBytes) {
    return false;
  }
  const std::uint64_t bytes = (range.bytes - begin) / kBlockBytes * kBlockBytes;
  struct file_clone_range request = {};
  request.src_fd = range.source->descriptor();
  request.src_offset = range.source_offset + begin;
  request.src_length = bytes;
  request.dest_offset = range.file_offset + begin;
  if (::ioctl(range.file->descriptor(), FICLONERANGE, &request) != 0) {
    return false;  // another file system, or one that cannot: copied instead
  }
  tally_.cloned += bytes;
  const std::uint64_t end = begin + bytes;
  return by_hand(range_part(range, 0, begin), nullptr, true) &&
         by_hand(range_part(range, end, range.bytes - end), nullptr, true);
}

bool RangeCopier::by_kernel(RangeCopy& rest) {
  while (rest.bytes > 0) {
    if (stopped()) {
      return false;
    }
    const auto turn = turn_of(rest);
    auto from = static_cast<off64_t>(rest.source_offset);
    auto to = static_cast<off64_t>(rest.file_offset);
    const ssize_t count =
        ::copy_file_range(rest.source->descriptor(), &from, rest.file->descriptor(), &to,
                          static_cast<std::size_t>(std::min(rest.bytes, kKernelBytes)), 0);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count <= 0) {
      break;  // reading and writing goes on from here, or meets the error and names it
    }
    tally_.kernel += static_cast<std::uint64_t>(count);
    rest = range_part(rest, static_cast<std::uint64_t>(count),
                      rest.bytes - static_cast<std::uint64_t>(count));
  }
  return true;
}

std::optional<std::string> RangeCopier::digest(ByteSource& source, std::uint64_t offset,
                                               std::uint64_t bytes) {
  Sha256 digest;
  const bool is_whole = by_hand({&source, offset, nullptr, 0, bytes}, &digest, false);
  return is_whole ? std::optional(hex(digest.finish())) : std::nullopt;
}

bool RangeCopier::by_hand(RangeCopy rest, Sha256* digest, bool write) {
  buffer_.resize(std::max<std::size_t>(
      buffer_.size(), static_cast<std::size_t>(std::min(kRangeBufferBytes, rest.bytes))));
  while (rest.bytes > 0) {
    if (stopped()) {
      return false;
    }
    const std::uint64_t now = std::min(kRangeBufferBytes, rest.bytes);
    const std::span<std::byte> bytes = std::span(buffer_).first(static_cast<std::size_t>(now));
    rest.source->read(rest.source_offset, bytes);
    if (digest != nullptr) {
      digest->update(std::span<const std::byte>(bytes));
    }
    if (write) {
      const auto turn = turn_of(rest);
      rest.file->write(rest.file_offset, bytes);
      tally_.read += now;
    }
    rest = range_part(rest, now, rest.bytes - now);
  }
  return !stopped();
}

}  // namespace vindex::write
