// Owns which part of a run one process works on: a share that it was given, or shares that it
// claims one by one.
#pragma once

#include <cstdint>
#include <vector>

namespace vindex::results {

struct WorkerShare {
  std::int32_t index = 0;  ///< not where shares are claimed
  std::int32_t count = 1;  ///< 1: a single run, unless shares are claimed
  bool claims = false;     ///< the process takes shares one by one (RunStore::take_share())
  /// Per row of the run, the share that it is in. Where it is left out, what a share holds is not
  /// known and no record of it is written (share_record.hpp); needed where shares are claimed.
  std::vector<std::int32_t> owners = {};
  /// One process does everything, and publishes the file.
  bool is_single() const { return count == 1 && !claims; }
};

/// What taking a share came to.
enum class ShareState : std::uint8_t {
  kTaken,      ///< it is this process's now
  kElsewhere,  ///< another process works on it, as far as can be seen
  kFinished,   ///< all of its rows are published
};

/// See RunStore::take_share(). Processes show that they live every 20 s; network file systems show
/// that to others up to a minute later.
inline constexpr std::int32_t kClaimSeconds = 150;

}  // namespace vindex::results
