// Owns the way of unchanged bytes from a source to a file, the cheapest that there is: blocks are
// shared where the file system can (FICLONERANGE), else the kernel copies (copy_file_range), else
// they are read and written. Where a digest is needed they must be read anyway, once, and are
// written from the same buffer.
#pragma once

#include "core/digest.hpp"
#include "core/files/atomic_file.hpp"
#include "input/local/file_source.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

namespace vindex::write {

/// `bytes` bytes of `source` from `source_offset` on that belong at `file_offset` of `file`.
struct RangeCopy {
  ByteSource* source = nullptr;
  std::uint64_t source_offset = 0;
  AtomicFile* file = nullptr;
  std::uint64_t file_offset = 0;
  std::uint64_t bytes = 0;
  /// Taken for each write, where several threads write to one file: they would spin on the lock
  /// that the kernel has for it.
  std::mutex* turn = nullptr;
};

/// How bytes went, over all copiers that share it.
struct CopyTally {
  std::atomic<std::uint64_t> cloned{0};  ///< share their blocks with the source
  std::atomic<std::uint64_t> kernel{0};  ///< copied by the kernel
  std::atomic<std::uint64_t> read{0};    ///< read and written here
};

/// Whether `file`, which is empty, can share blocks with `source`: tries it, and leaves it empty.
bool can_share_blocks(const ByteSource& source, AtomicFile& file);

/// One thread's. Its buffer is kept from one range to the next.
class RangeCopier {
 public:
  /// `stop`, where given, ends a copy early once it is not 0.
  explicit RangeCopier(CopyTally& tally, std::stop_token stop = {})
      : tally_(tally), stop_(std::move(stop)) {}

  /// Copies `range`, feeding its bytes to `digest` where given. False: stopped. What was copied is
  /// handed to the device at once, so that a later fsync waits for little. Errors: those of
  /// ByteSource::read() and AtomicFile::write().
  bool run(const RangeCopy& range, Sha256* digest = nullptr);

  /// Digest of `bytes` bytes of `source` from `offset` on, lower-case hex. Nothing: stopped.
  /// Errors: those of ByteSource::read().
  std::optional<std::string> digest(ByteSource& source, std::uint64_t offset, std::uint64_t bytes);

 private:
  bool stopped() const { return stop_.stop_requested(); }
  /// Shares whole blocks and writes what lies around them. False: not possible, nothing done.
  bool clone(const RangeCopy& range);
  /// False: stopped. `rest` is what it left.
  bool by_kernel(RangeCopy& rest);
  bool by_hand(RangeCopy rest, Sha256* digest, bool write);

  CopyTally& tally_;
  std::stop_token stop_;
  std::vector<std::byte> buffer_;
};

}  // namespace vindex::write
