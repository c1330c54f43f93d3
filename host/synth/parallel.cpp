#include "parallel.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace vindex::synth {

void for_each_index(std::size_t count, std::size_t threads,
                    const std::function<void(std::size_t, std::size_t)>& body) {
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::exception_ptr error;
  const auto work = [&](std::size_t worker) {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        body(worker, i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!error) {
          error = std::current_exception();
        }
        next = count;
      }
    }
  };
  {
    std::vector<std::jthread> workers;
    for (std::size_t worker = 1; worker < std::min(threads, count); ++worker) {
      workers.emplace_back(work, worker);
    }
    work(0);
  }
  if (error) {
    std::rethrow_exception(error);
  }
}

std::size_t thread_count(std::uint64_t bytes) {
  const std::uint64_t room = (std::uint64_t{1} << 30U) / std::max<std::uint64_t>(bytes, 1);
  const std::uint64_t cores = std::thread::hardware_concurrency();
  return std::clamp<std::uint64_t>(std::min(room, cores), 1, 8);
}

}  // namespace vindex::synth
