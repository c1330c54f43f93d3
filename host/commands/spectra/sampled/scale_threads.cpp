// Owns the loop of these threads.
#include "scale_threads.hpp"

#include "core/process/parallel.hpp"

namespace vindex::commands {

ScaleThreads::ScaleThreads(std::int32_t count) {
  const auto work = [this] {
    while (const auto task = tasks_.pop()) {
      (*task)();
    }
  };
  for (std::int32_t i = 0; i < count && start_thread(threads_, work); ++i) {
  }
  if (threads_.empty()) {
    throw_no_thread("the weights of matrices");
  }
}

ScaleThreads::~ScaleThreads() {
  tasks_.close();
  threads_.clear();
}

}  // namespace vindex::commands
