// Owns the reads that are in flight in an io_uring: their places, the thread that awaits them, and
// what happens when the ring fails on the way: nothing more is begun in it, and what is in flight
// is still awaited, because the kernel writes into its memory until it has ended.
#pragma once

#include "bulk_request.hpp"
#include "io_ring.hpp"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace vindex::input {

class RingLane {
 public:
  /// Called on the lane's thread, once for every read that was begun, with the bytes that were read
  /// or -errno. Must not throw.
  using Landed = std::function<void(Request, std::int32_t)>;

  /// Null where the system has no thread to give. `ring` is for `depth` reads in flight.
  static std::unique_ptr<RingLane> start(std::unique_ptr<IoRing> ring, std::uint32_t depth,
                                         Landed landed);
  /// Ends when everything in flight has landed; nothing is begun any more by then.
  ~RingLane();
  RingLane(const RingLane&) = delete;
  RingLane& operator=(const RingLane&) = delete;

  /// Begins to read `request` from `descriptor`; waits for a place. Thread-safe. False where the
  /// ring failed, now or before: `request` is as it was and is to be read by other means.
  bool begin(Request& request, int descriptor);
  /// Why the ring was given up, or nothing.
  std::string error() const;

 private:
  RingLane(std::unique_ptr<IoRing> ring, std::uint32_t depth, Landed landed);
  Request take_back(std::uint32_t place);
  void give_up(const SystemError& error);
  bool await_flight();
  IoRing::Completion next_completion();
  void reap();

  std::unique_ptr<IoRing> ring_;
  Landed landed_;
  std::atomic<bool> failed_{false};
  std::mutex submit_mutex_;
  mutable std::mutex mutex_;
  std::condition_variable place_freed_, flight_begun_;
  std::vector<Request> requests_;
  std::vector<std::uint32_t> free_places_;
  std::size_t in_flight_ = 0;  ///< begun and not yet awaited
  bool no_more_ = false;
  std::string error_;
  std::vector<std::jthread> reaper_;
};

}  // namespace vindex::input
