// Owns a run of `vindex measure` whose storage and solver only sleep: planner, budget, reader,
// queues, workers, metrics and the results file are the real ones, so that a few cores show what
// many would wait for. What it cannot show: memory bandwidth, page faults, the scheduler of a large
// machine.
#pragma once

#include "simulated_device.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace vindex::throughput {

/// Matrices of one shape and how long solving one takes, on one core.
struct SimulatedShape {
  std::int64_t rows = 0, cols = 0;
  bool is_fp8 = false;  ///< in blocks of 128 x 128; else BF16
  double solve_seconds = 0.0;
  std::int64_t repeats = 1;  ///< in each period of the workload
};

struct SimulatedRun {
  std::vector<SimulatedShape> period;  ///< repeated until there are `matrices`
  std::int64_t matrices = 0;
  std::int32_t workers = 1;
  std::uint64_t ram_budget = 0;   ///< bytes
  double bytes_per_second = 0.0;  ///< of the storage, all requests together
  /// Read in its place, over and over; empty: nothing is read. What the page cache holds of it
  /// costs a copy, as in a run.
  std::string copied_file;
  /// Solves in place of `workers`; `solve_seconds` of shapes is then nothing.
  std::optional<DeviceModel> device;
  std::string output;  ///< results file, written and left there
};

/// Seconds unless said otherwise. "Processor": time on a core, which a machine of few cores gives
/// too. Workers' times are sums over all of them.
struct SimulatedTimes {
  double whole = 0.0;           ///< from the plan to the published file
  double working = 0.0;         ///< from the first unit to the end of the last solve
  double publishing = 0.0;      ///< from the end of the last solve to the end
  double solve = 0.0;           ///< what was asked of the solver
  double oversleep = 0.0;       ///< what its sleeps lasted longer: this machine's, not the engine's
  double wait_unit = 0.0;       ///< workers: for a unit that is begun, until the last one is taken
  double wait_bytes = 0.0;      ///< for the bytes of a unit
  double wait_hand_over = 0.0;  ///< for room where finished reports go
  double writer_waits = 0.0;    ///< thread that takes rows: nothing is there
  double begin_processor = 0.0;       ///< thread that begins units
  double staging_processor = 0.0;     ///< of that, for buffers that were made
  double writer_processor = 0.0;      ///< thread that takes rows
  double reader_processor = 0.0;      ///< all threads that read
  double worker_processor = 0.0;      ///< all workers
  double processor = 0.0;             ///< all threads, until the last row was taken
  double publishing_processor = 0.0;  ///< from there to the end
  std::uint64_t staging_bytes = 0;    ///< of all buffers that were asked of the system
  std::int64_t staging_made = 0;      ///< buffers that were asked of the system
};

/// Wakes as near to `when` as the kernel can.
void sleep_until(std::chrono::steady_clock::time_point when);

/// Errors: those of a run; InternalError where a row is missing or failed.
SimulatedTimes simulate(const SimulatedRun& run);

}  // namespace vindex::throughput
