// Owns the thread that awaits completions, and giving up on a ring.
#include "ring_lane.hpp"

#include "core/process/parallel.hpp"
#include <vindex/error.hpp>

#include <chrono>
#include <utility>

namespace vindex::input {

namespace {
constexpr std::chrono::milliseconds kPollInterval(1);
}  // namespace

std::unique_ptr<RingLane> RingLane::start(std::unique_ptr<IoRing> ring, std::uint32_t depth,
                                          Landed landed) {
  std::unique_ptr<RingLane> lane(new RingLane(std::move(ring), depth, std::move(landed)));
  if (!start_thread(lane->reaper_, [reaping = lane.get()] { reaping->reap(); })) {
    return nullptr;
  }
  return lane;
}

RingLane::RingLane(std::unique_ptr<IoRing> ring, std::uint32_t depth, Landed landed)
    : ring_(std::move(ring)), landed_(std::move(landed)), requests_(depth) {
  for (std::uint32_t i = 0; i < depth; ++i) {
    free_places_.push_back(depth - 1 - i);
  }
}

RingLane::~RingLane() {
  {
    const std::lock_guard lock(mutex_);
    no_more_ = true;
    flight_begun_.notify_all();
  }
  reaper_.clear();
}

bool RingLane::begin(Request& request, int descriptor) {
  std::uint32_t place = 0;
  std::byte* const into = request.into - request.edge();
  const std::uint64_t offset = request.range.offset - request.edge();
  const auto bytes = static_cast<std::uint32_t>(request.direct_bytes());
  {
    std::unique_lock lock(mutex_);
    place_freed_.wait(lock, [&] { return !free_places_.empty(); });
    place = free_places_.back();
    free_places_.pop_back();
    requests_[place] = std::move(request);
  }
  try {
    const std::lock_guard lock(submit_mutex_);
    if (failed_) {
      request = take_back(place);
      return false;
    }
    ring_->submit(place, descriptor, into, bytes, offset);
  } catch (const SystemError& error) {
    give_up(error);
    request = take_back(place);
    return false;
  }
  const std::lock_guard lock(mutex_);
  ++in_flight_;
  flight_begun_.notify_one();
  return true;
}

std::string RingLane::error() const {
  const std::lock_guard lock(mutex_);
  return error_;
}

Request RingLane::take_back(std::uint32_t place) {
  const std::lock_guard lock(mutex_);
  Request request = std::move(requests_[place]);
  requests_[place] = {};
  free_places_.push_back(place);
  place_freed_.notify_one();
  return request;
}

void RingLane::give_up(const SystemError& error) {
  const std::lock_guard lock(mutex_);
  if (!failed_.exchange(true)) {
    error_ = error.what();
  }
}

/// True where something is in flight; false once nothing is and nothing will be.
bool RingLane::await_flight() {
  std::unique_lock lock(mutex_);
  flight_begun_.wait(lock, [&] { return in_flight_ > 0 || no_more_; });
  if (in_flight_ == 0) {
    return false;
  }
  --in_flight_;
  return true;
}

IoRing::Completion RingLane::next_completion() {
  if (!failed_) {
    try {
      return ring_->wait();
    } catch (const SystemError& error) {
      give_up(error);
    }
  }
  while (true) {
    if (const auto completion = ring_->poll()) {
      return *completion;
    }
    std::this_thread::sleep_for(kPollInterval);
  }
}

void RingLane::reap() {
  while (await_flight()) {
    const IoRing::Completion completion = next_completion();
    landed_(take_back(static_cast<std::uint32_t>(completion.tag)), completion.result);
  }
}

}  // namespace vindex::input
