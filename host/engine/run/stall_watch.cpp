// Owns the rule when a run counts as stalled.
#include "stall_watch.hpp"

#include <fmt/format.h>

#include <utility>

namespace vindex::engine {

std::optional<std::string> StallWatch::look(double now, const input::ReadStatistics& reading) {
  const bool moves = reading.requests != requests_ || reading.under_way == 0;
  if (!moves) {
    if (is_told_ || now - since_ < kPatienceSeconds) {
      return std::nullopt;
    }
    is_told_ = true;
    return fmt::format(
        "warning W-STALLED: {} read{} under way and none has ended for {:.0f} s; the storage or "
        "the server does not answer. The run goes on waiting",
        reading.under_way, reading.under_way == 1 ? " is" : "s are", now - since_);
  }
  const double waited = now - std::exchange(since_, now);
  requests_ = reading.requests;
  return std::exchange(is_told_, false)
             ? std::optional(fmt::format("reads go on after {:.0f} s", waited))
             : std::nullopt;
}

}  // namespace vindex::engine
