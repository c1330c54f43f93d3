#include "parallel.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace vindex::synth {

void for_each_index(std::size_t count, unsigned threads,
                    const std::function<void(std::size_t)>& body) {
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::exception_ptr error;
  const auto work = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        body(i);
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
    const std::size_t extra =
        std::min<std::size_t>(std::max(threads, 1U), std::max<std::size_t>(count, 1)) - 1;
    for (std::size_t i = 0; i < extra; ++i) {
      workers.emplace_back(work);
    }
    work();
  }
  if (error) {
    std::rethrow_exception(error);
  }
}

}  // namespace vindex::synth
