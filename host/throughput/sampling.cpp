// Owns the loop that takes samples, and the one that starts threads together.
#include "sampling.hpp"

#include "core/process/parallel.hpp"

#include <exception>
#include <mutex>
#include <thread>

namespace vindex::throughput {

std::vector<double> take_samples(const Sampling& sampling, const std::function<double()>& once) {
  std::vector<double> samples;
  const double start = wall_seconds();
  for (int sample = -1; sample < sampling.samples && !sampling.stopped(); ++sample) {
    const double value = once();
    if (sample >= 0) {
      samples.push_back(value);
    }
    if (!samples.empty() && wall_seconds() - start > sampling.case_seconds) {
      break;
    }
  }
  return samples;
}

double run_together(int workers, const std::function<void(int)>& work) {
  std::mutex mutex;
  std::exception_ptr failure;
  std::vector<std::jthread> threads;
  const double start = wall_seconds();
  bool together = true;
  for (int worker = 0; worker < workers && together; ++worker) {
    together = start_thread(threads, [&, worker] {
      try {
        work(worker);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (failure == nullptr) {
          failure = std::current_exception();
        }
      }
    });
  }
  threads.clear();
  if (!together) {
    throw_no_thread("measuring together");
  }
  if (failure != nullptr) {
    std::rethrow_exception(failure);
  }
  return wall_seconds() - start;
}

}  // namespace vindex::throughput
