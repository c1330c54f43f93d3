// Owns the device time that a stage of a batch takes, by pairs of events on its stream.
#pragma once

#include "device/handles.hpp"

#include <utility>
#include <vector>

namespace vindex::kernels {

class StageClock {
 public:
  /// Time from here to the end of the object, on `stream`, counts.
  class Span {
   public:
    Span(StageClock& clock, cudaStream_t stream) : clock_(clock), stream_(stream) {
      begin_ = make_event(true);
      check(cudaEventRecord(begin_.get(), stream_));
    }
    ~Span() {
      try {
        Event end = make_event(true);
        check(cudaEventRecord(end.get(), stream_));
        clock_.spans_.emplace_back(std::move(begin_), std::move(end));
      } catch (const Error&) {  // a lost time is no reason to lose the spectrum
      }
    }
    Span(const Span&) = delete;
    Span& operator=(const Span&) = delete;

   private:
    StageClock& clock_;
    cudaStream_t stream_;
    Event begin_;
  };

  /// Sum of all spans since the last call; waits for them.
  double take_seconds() {
    double seconds = 0.0;
    for (const auto& [begin, end] : spans_) {
      float milliseconds = 0.0F;
      check(cudaEventSynchronize(end.get()));
      check(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()));
      seconds += static_cast<double>(milliseconds) * 1e-3;
    }
    spans_.clear();
    return seconds;
  }

 private:
  std::vector<std::pair<Event, Event>> spans_;
};

}  // namespace vindex::kernels
