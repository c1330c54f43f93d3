// Owns how the processes of a run look from outside: who works, at which pace, who has ended and
// how, from what lies in the parts folder.
#pragma once

#include "heartbeat.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace vindex::results {

/// How a process of a run is seen from outside.
enum class WorkerState : std::uint8_t {
  kAlive,
  kSlow,     ///< at less than half of the median pace, or silent for a minute
  kDead,     ///< ended without a word
  kStopped,  ///< ended properly before its share was finished
  kDone,
  kAbsent,  ///< has not begun
};
const char* worker_state_name(WorkerState state);  ///< "alive", "slow", ...

struct WorkerStatus {
  std::string tag;  ///< "3of16"; of one that claims shares "HOST-PIDof512"
  WorkerState state = WorkerState::kAlive;
  std::string host;
  std::int64_t pid = 0;          ///< 0: not known
  std::int64_t own_total = -1;   ///< rows of its share; negative: not known
  std::int64_t own_done = -1;    ///< of them; negative: not known
  double rate_per_second = 0.0;  ///< 0: not known
  double pace = 0.0;             ///< RunProgress::pace
  double seen_seconds = -1.0;    ///< since its last sign; negative: none
};

/// Heartbeats of the workers in a folder, by tag, and those of them whose process lives.
struct Heartbeats {
  std::map<std::string, Heartbeat> all;
  std::vector<std::string> alive;  ///< tags
  bool is_alive(const std::string& tag) const;
};
/// Errors: SystemError.
Heartbeats read_heartbeats(const std::string& folder);

/// Marks the alive ones among `workers` as slow whose pace is below half of the median of those
/// that have one, or that have been silent for a minute.
void mark_slow(std::vector<WorkerStatus>& workers);

/// Every worker of the run of `folder` that is known of, by share, then those that claim shares, by
/// name; shares from 0 that nobody has begun too. Nothing for a single run. Errors: SystemError.
std::vector<WorkerStatus> list_workers(const std::string& folder, const Heartbeats& heartbeats);

}  // namespace vindex::results
