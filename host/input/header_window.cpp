// Owns admitting files in order within the bound, and the threads that read.
#include "header_window.hpp"

#include "core/process/parallel.hpp"

#include <algorithm>
#include <exception>

namespace vindex::input {

namespace {
/// What a header makes takes up to six times its bytes; a refusal may take 200 MB.
constexpr std::uint64_t kMaxHeaderBytes = std::uint64_t{24} << 20U;

/// Ends a file that nobody wants any more.
struct NotWanted {};
}  // namespace

bool HeaderWindow::admit(std::size_t i, std::uint64_t bytes) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] {
    const bool fits = in_flight_ == 0 || (in_flight_ < most_ && bytes <= most_ - in_flight_);
    return failed_ < i || (next_ == i && fits);
  });
  if (failed_ < i) {
    return false;
  }
  reserved_bytes_[i] = bytes;
  in_flight_ += bytes;
  ++next_;
  skip_done();
  changed_.notify_all();
  return true;
}

// A file that never asked for room does not hold up those behind it.
void HeaderWindow::skip_done() {
  while (next_ < done_.size() && done_[next_]) {
    ++next_;
  }
}

void HeaderWindow::leave(std::size_t i, bool failed) {
  const std::lock_guard lock(mutex_);
  done_[i] = true;
  if (failed) {
    failed_ = std::min(failed_, i);
  }
  while (first_open_ < done_.size() && done_[first_open_]) {
    in_flight_ -= reserved_bytes_[first_open_++];
  }
  skip_done();
  changed_.notify_all();
}

std::size_t HeaderWindow::first_failed() {
  const std::lock_guard lock(mutex_);
  return failed_;
}

std::size_t header_threads(const ModelStore& store, std::int32_t wanted) {
  const std::int32_t opens = store.parallel_opens();
  return opens > 0 ? static_cast<std::size_t>(opens) : thread_count(0, wanted);
}

void read_headers(std::size_t count, std::size_t threads,
                  const std::function<void(std::size_t, const AskForRoom&)>& read,
                  const std::function<void(std::size_t)>& take) {
  HeaderWindow window(count, kMaxHeaderBytes);
  std::exception_ptr error;
  try {
    for_each_index(count, threads, [&](std::size_t /*worker*/, std::size_t i) {
      try {
        read(i, [&](std::uint64_t bytes) {
          if (!window.admit(i, bytes)) {
            throw NotWanted();
          }
        });
      } catch (...) {
        window.leave(i, true);
        throw;
      }
      window.leave(i, false);
    });
  } catch (...) {
    error = std::current_exception();
  }
  for (std::size_t i = 0; i < window.first_failed(); ++i) {
    take(i);
  }
  if (error) {
    std::rethrow_exception(error);
  }
}

}  // namespace vindex::input
