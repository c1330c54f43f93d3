// Owns how the processes of a run look from outside: who works, at which pace, who has ended and
// how, from what lies in the parts folder.
#pragma once

#include "heartbeat.hpp"

#include "results/runs/run_store.hpp"

#include <map>
#include <string>
#include <vector>

namespace vindex::results {

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
