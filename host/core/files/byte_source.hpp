// Owns positional reading. One small interface, so that local files, memory, remote objects and the
// faulty sources of the tests are the same to every reader above; and what is asked of ranges
// whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace vindex {

/// One read: `into.size()` bytes from absolute `offset`.
struct ReadRequest {
  std::uint64_t offset = 0;
  std::span<std::byte> into;
};

/// What distinguishes one version of a source from another; part of the resume fingerprint.
struct SourceIdentity {
  std::uint64_t bytes = 0;
  std::string version;  ///< files: "inode:mtime_ns"; remote: ETag or revision
  bool operator==(const SourceIdentity&) const = default;
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
  /// May cost a request: asked for once per unit of work, not per read.
  virtual SourceIdentity identity() const = 0;
  /// Identity when it was opened: a source that learnt it on opening does not ask again.
  virtual SourceIdentity identity_at_opening() const { return identity(); }
  /// Fills every request whole. One call may hold many: a source that pays for each with a round
  /// trip merges neighbours and has several under way at once. Errors: FormatError "E-TRUNCATED"
  /// where the source ends before a request does; SystemError (74) where the system fails,
  /// RemoteError (69) where another machine does. Short reads are continued inside.
  virtual void read_many(std::span<const ReadRequest> requests) = 0;
  /// The header has been read: what was read ahead for it may go.
  virtual void header_is_read() {}
  /// What was made of it is stored for good and nothing more is asked of it: copies kept of what
  /// was read may go.
  virtual void results_are_stored() {}
  /// The open descriptor of a regular local file, for readers that bypass read_many(); -1 for
  /// every other source.
  virtual int descriptor() const { return -1; }

  /// One request.
  void read(std::uint64_t offset, std::span<std::byte> into) {
    const ReadRequest request{offset, into};
    read_many(std::span(&request, 1));
  }
};

/// `bytes` bytes of `source` from `offset` on. Errors of all that follows: those of read().
std::string text_at(ByteSource& source, std::uint64_t offset, std::uint64_t bytes);
/// Its first `most` bytes, or what there is.
std::string beginning_of(ByteSource& source, std::uint64_t most);
inline std::string whole_text(ByteSource& source) { return text_at(source, 0, source.size()); }

/// SHA-256 of `bytes` bytes from `offset` on, lower-case hex. Memory: a mebibyte.
std::string digest_at(ByteSource& source, std::uint64_t offset, std::uint64_t bytes);

/// Whether `bytes` bytes of both are equal; read up to the first mebibyte that differs.
bool same_bytes(ByteSource& a, std::uint64_t offset_a, ByteSource& b, std::uint64_t offset_b,
                std::uint64_t bytes);

}  // namespace vindex
