// Owns the second descriptors of files, for reads past the page cache: each is asked for once, and
// out of use as soon as the file system refuses.
#pragma once

#include "read_calls.hpp"

#include "core/files/byte_source.hpp"

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace vindex::input {

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
