// Owns how things are timed: clocks, a warm-up that is dropped, and a case that ends early where
// its time is used up (after one sample at least).
#pragma once

#include <chrono>
#include <cstdint>
#include <ctime>
#include <functional>
#include <stop_token>
#include <vector>

namespace vindex::throughput {

/// Processor time of the calling thread: what a noisy neighbour cannot lengthen much.
inline double thread_seconds() {
  std::timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Processor time of all threads of the process, in user and system.
inline double process_seconds() {
  std::timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Monotonic time.
inline double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Sampling {
  int samples = 5;             ///< per case, after one warm-up
  double case_seconds = 10.0;  ///< no further sample is begun after this
  std::stop_token stop = {};   ///< requested: end now
  bool stopped() const { return stop.stop_requested(); }
};

/// Calls `once` for a warm-up and then for every sample; it returns what it measured.
std::vector<double> take_samples(const Sampling& sampling, const std::function<double()>& once);

/// Wall seconds of `work(worker)` on `workers` threads at once. The first exception of a worker is
/// thrown here.
double run_together(int workers, const std::function<void(int)>& work);

}  // namespace vindex::throughput
