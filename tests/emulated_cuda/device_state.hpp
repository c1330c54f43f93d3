// Owns the state of the emulated device that memory and streams share.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <emulated/device.hpp>
#include <functional>
#include <map>
#include <mutex>
#include <set>

namespace vindex::emulated {

using Clock = std::chrono::steady_clock;

struct Event {
  Stream* stream = nullptr;    ///< where last recorded; null: never
  std::uint64_t position = 0;  ///< of the record in that stream's history
  Clock::time_point time;
  bool timed = true;
};

/// Work waits in `queue`; positions count everything ever submitted.
struct Stream {
  std::deque<std::function<void()>> queue;
  std::uint64_t submitted = 0;
  std::uint64_t done = 0;
};

struct Device {
  std::recursive_mutex mutex;
  Ordering ordering = Ordering::kAtOnce;
  std::size_t memory_bytes = 8ULL << 30U;
  int major = 9, minor = 0;
  std::size_t in_use = 0, peak = 0;
  std::map<const unsigned char*, std::size_t> allocations;
  std::set<const void*> host_allocations;
  std::set<Stream*> streams;
  std::map<const void*, int> shared_limits;
  std::map<const void*, const char*> function_names;
  std::atomic<bool> sticky_errors = false;
  std::atomic<bool> broken = false;  ///< by a fault, with sticky errors
};

Device& device();

/// Keeps `error` for cudaGetLastError() and returns it.
cudaError_t failed(cudaError_t error);

/// What every call but those that give back returns: an error after a fault, with sticky errors.
inline cudaError_t state_of_device() {
  return device().broken ? cudaErrorLaunchFailure : cudaSuccess;
}

/// Runs `stream` up to and including position `until`. The device's mutex is held.
void drain(Stream& stream, std::uint64_t until);
void drain_all();

}  // namespace vindex::emulated
