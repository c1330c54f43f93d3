// Owns noticing that reads are under way and none ends: a hanging network file system, a server
// that sends nothing. Says so once, and once more when it is over. Pure but for what it remembers.
#pragma once
#include "input/bulk/read_statistics.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace vindex::engine {

class StallWatch {
 public:
  static constexpr double kPatienceSeconds = 60.0;

  /// `now`: seconds of any clock that never goes back. A line for people, or nothing.
  std::optional<std::string> look(double now, const input::ReadStatistics& reading);

 private:
  double since_ = 0.0;          ///< nothing has ended since
  std::uint64_t requests_ = 0;  ///< that had ended then
  bool is_told_ = false;
};

}  // namespace vindex::engine
