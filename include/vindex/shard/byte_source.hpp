// Owns positional reading. One small interface, so that local files, memory, remote objects (to
// come) and the faulty source of the tests are the same to every reader above.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace vindex::shard {

/// One read: `into.size()` bytes from absolute `offset`.
struct ReadRequest {
  std::uint64_t offset = 0;
  std::span<std::byte> into;
};

/// What tells one version of a source from another; part of the resume fingerprint.
struct SourceIdentity {
  std::uint64_t bytes = 0;
  std::string version;  ///< files: "inode:mtime_ns"; remote: ETag or revision
};

/// A readable sequence of bytes of known size. Thread-safe: reads are positional and may run
/// concurrently.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  /// How messages name it (path or URI), printable().
  virtual const std::string& name() const = 0;
  virtual std::uint64_t size() const = 0;
  /// Identity NOW; compare with the identity at opening to notice a file that changed during a run.
  virtual SourceIdentity identity() const = 0;
  /// Fills every request whole. Errors: FormatError "E-TRUNCATED" where the source ends before a
  /// request does; SystemError (74, `retryable` set for remote trouble) where the system fails.
  /// Short reads are retried inside.
  virtual void read_many(std::span<const ReadRequest> requests) = 0;
  /// The open descriptor of a regular local file, for readers that bypass read_many(); -1 for
  /// every other source.
  virtual int descriptor() const { return -1; }

  /// One request.
  void read(std::uint64_t offset, std::span<std::byte> into);
};

/// A regular local file opened read-only. Errors: MissingInputError (absent; a folder, device or
/// FIFO: named as what it is), SystemError 77 without permission.
std::unique_ptr<ByteSource> open_file_source(const std::string& path);

/// Bytes in memory (tests, fuzzing). `bytes` must outlive the source.
std::unique_ptr<ByteSource> make_memory_source(std::string name, std::span<const std::byte> bytes);

}  // namespace vindex::shard
