// Owns how a range of a file is read past the page cache: whether it lies there (such bytes are
// copied), and the second descriptors of files for direct reads, each asked for once, and out of
// use as soon as the file system refuses.
#pragma once

#include "bulk_reader.hpp"

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace vindex::input {

/// True where (nearly) all of [offset, offset + bytes) of the open file is in memory now. Asks
/// cachestat(2) (Linux 6.5; only the owner of a file or who may write it is answered), else reads
/// single bytes with RWF_NOWAIT. Where neither answers (some network file systems): false. A wrong
/// answer costs time, never correctness.
bool in_page_cache(int descriptor, std::uint64_t offset, std::uint64_t bytes);

/// Whether `error` of a direct read says that there are none here, rather than that one failed.
bool says_refused(std::int64_t error);

/// Thread-safe.
class DirectFiles {
 public:
  explicit DirectFiles(ReadCalls& calls) : calls_(calls) {}
  ~DirectFiles();
  DirectFiles(const DirectFiles&) = delete;
  DirectFiles& operator=(const DirectFiles&) = delete;

  /// The descriptor for direct reads of `source`, a local file; -1 where there is none.
  int descriptor(ByteSource& source);
  /// No further direct read of `source`, for `error`. Its descriptor stays open: others may be in
  /// flight.
  void refuse(ByteSource& source, int error);
  /// One line for each file that was refused.
  std::vector<std::string> refused() const;

 private:
  struct File {
    int descriptor = -1;
    bool asked = false;
  };
  void note(const ByteSource& source, int error);

  ReadCalls& calls_;
  mutable std::mutex mutex_;
  std::map<ByteSource*, File> files_;
  std::vector<int> retired_;
  std::vector<std::string> refused_;
};

}  // namespace vindex::input
