// Owns the thread that works and the loop of the caller that looks for signals.
#include "interruptible.hpp"

#include <vindex/error.hpp>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

namespace nb = nanobind;

namespace vindex_python {

namespace {

constexpr auto kBetweenLooks = std::chrono::milliseconds(50);

/// True where a signal's handler raised an exception, which is then this thread's. Called without
/// the interpreter's lock.
bool is_interrupted() {
  const nb::gil_scoped_acquire lock;
  return PyErr_CheckSignals() != 0;
}

}  // namespace

void run_interruptible(const std::function<void(std::stop_token)>& work) {
  std::mutex mutex;
  std::condition_variable ended;
  bool is_done = false;
  std::exception_ptr failure;
  const auto body = [&](const std::stop_token& stop) {
    try {
      work(stop);
    } catch (...) {
      failure = std::current_exception();
    }
    const std::lock_guard lock(mutex);
    is_done = true;
    ended.notify_one();
  };
  bool is_stopped = false;
  {
    const nb::gil_scoped_release unlocked;
    std::jthread thread;
    try {
      thread = std::jthread(body);
    } catch (const std::system_error&) {
      throw vindex::Error(vindex::ExitCode::kInternal, "E-THREADS",
                          "not one thread could be started for the work");
    }
    std::unique_lock lock(mutex);
    while (!is_stopped && !ended.wait_for(lock, kBetweenLooks, [&] { return is_done; })) {
      lock.unlock();
      is_stopped = is_interrupted();
      lock.lock();
    }
    lock.unlock();
    if (is_stopped) {
      thread.request_stop();
    }
  }
  if (is_stopped) {
    throw nb::python_error();
  }
  if (failure) {
    std::rethrow_exception(failure);
  }
}

}  // namespace vindex_python
