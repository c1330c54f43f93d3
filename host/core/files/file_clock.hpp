// Owns what time it is by the clock that stamps files: of the server where a folder is mounted from
// one. Ages of files of other machines are measured against it, so that a skewed clock of this
// machine or of theirs makes nothing look dead or alive.
#pragma once

#include <ctime>
#include <optional>
#include <string>

namespace vindex {

/// The clock of one folder, asked when it is needed and once: for one look at its files.
class FileClock {
 public:
  explicit FileClock(std::string folder);
  /// Seconds since 1970 as the folder would stamp a file, by a file made for it, which leaves
  /// nothing behind. This machine's clock where none can be made there.
  std::time_t now() const;

 private:
  std::string folder_;
  mutable std::optional<std::time_t> now_;
};

}  // namespace vindex
