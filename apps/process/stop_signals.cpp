// Owns making one request of the first signal that comes.
#include "stop_signals.hpp"

#include "session.hpp"

#include "core/process/parallel.hpp"

#include <fmt/format.h>

#include <atomic>
#include <semaphore.h>
#include <signal.h>
#include <string.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace vindex::apps {

namespace {

std::atomic<int> stop_signal{0};
static_assert(std::atomic<int>::is_always_lock_free, "written by a signal handler");
sem_t stop_noted;  ///< never destroyed: the handler stays

extern "C" void note_stop(int signal) {
  if (signal == SIGINT && stop_signal != 0) {
    constexpr char kReason[] = "vindex: E-INTERRUPTED: ended at once by a second SIGINT\n";
    (void)!::write(STDERR_FILENO, kReason, sizeof(kReason) - 1);  // all that a handler may call
    _exit(130);
  }
  stop_signal = signal;
  sem_post(&stop_noted);
}

/// Makes a request of the first signal, which a handler may not: it has a thread for that.
class StopSignals {
 public:
  StopSignals() {
    sem_init(&stop_noted, 0, 0);
    const auto await_signal = [this] {
      while (sem_wait(&stop_noted) != 0) {  // interrupted
      }
      if (stop_signal != 0) {
        stop_.request_stop();
      }
    };
    if (!start_thread(watcher_, await_signal)) {
      throw_no_thread("stop signals");
    }
    struct sigaction action {};
    action.sa_handler = note_stop;
    sigemptyset(&action.sa_mask);
    action.sa_flags = SA_RESTART;
    for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) {
      sigaction(signal, &action, nullptr);
    }
  }
  ~StopSignals() { sem_post(&stop_noted); }
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  std::stop_token token() const { return stop_.get_token(); }

 private:
  std::stop_source stop_;
  std::vector<std::jthread> watcher_;
};

}  // namespace

std::stop_token catch_stop_signals() {
  static const StopSignals signals;
  return signals.token();
}

Ending stopped_early(const std::string& kept) {
  const int signal = stop_signal;
  const char* const name = sigabbrev_np(signal);
  return {ExitCode::kStoppedEarly, fmt::format("E-STOPPED: stopped early by {}: {}",
                                               name == nullptr ? fmt::format("signal {}", signal)
                                                               : fmt::format("SIG{}", name),
                                               kept)};
}

}  // namespace vindex::apps
