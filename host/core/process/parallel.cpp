// Owns the threads of for_each_index(), and how many of them processor, quota and memory allow.
#include "parallel.hpp"

#include "control_groups.hpp"

#include <vindex/error.hpp>

#include <algorithm>
#include <atomic>
#include <exception>
#include <limits>
#include <mutex>
#include <new>
#include <sched.h>
#include <string>
#include <system_error>
#include <utility>

namespace vindex {

std::int32_t usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) {
    return 1;
  }
  static const std::int32_t quota =
      quota_cores().value_or(std::numeric_limits<std::int32_t>::max());
  return std::clamp(CPU_COUNT(&set), 1, quota);
}

std::size_t thread_count(std::uint64_t bytes, std::int32_t wanted) {
  const std::uint64_t room = (std::uint64_t{1} << 30U) / std::max<std::uint64_t>(bytes, 1);
  const auto cores = static_cast<std::uint64_t>(wanted > 0 ? wanted : usable_cores());
  return std::clamp<std::uint64_t>(std::min(room, cores), 1, 8);
}

bool start_thread(std::vector<std::jthread>& threads, std::function<void()> body) {
  try {
    threads.emplace_back(std::move(body));
    return true;
  } catch (const std::system_error&) {
    return false;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

void throw_no_thread(const char* purpose) {
  throw Error(ExitCode::kInternal, "E-THREADS",
              std::string("no thread could be started for ") + purpose +
                  "; a limit on processes (`ulimit -u`, a container's) or on memory is reached");
}

void for_each_index(std::size_t count, std::size_t threads,
                    const std::function<void(std::size_t, std::size_t)>& body) {
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::exception_ptr error;
  std::size_t failed = count;
  const auto work = [&](std::size_t worker) {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        body(worker, i);
      } catch (...) {
        // Every smaller index has begun: the smallest that fails always gets here.
        const std::lock_guard lock(mutex);
        if (i < failed) {
          failed = i;
          error = std::current_exception();
        }
        next = count;
      }
    }
  };
  {
    std::vector<std::jthread> workers;
    try {
      for (std::size_t worker = 1; worker < std::min(threads, count); ++worker) {
        workers.emplace_back(work, worker);
      }
    } catch (const std::system_error&) {
      // A limit on threads: those that there are do the work, the caller's at least.
    } catch (const std::bad_alloc&) {
      // The same for memory.
    }
    work(0);
  }
  if (error) {
    std::rethrow_exception(error);
  }
}

}  // namespace vindex
