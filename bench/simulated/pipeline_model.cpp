// Owns the events of the model.
#include "pipeline_model.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace vindex::throughput {

namespace {

enum class Stage : std::uint8_t { kBus, kKernels, kHost, kOver };

struct Lane {
  Stage stage = Stage::kOver;
  double matrices = 0.0;
  double left = 0.0;  ///< milliseconds of the stage at its full rate
  double rate = 0.0;
};

class Model {
 public:
  Model(const Pipeline& pipeline, const std::vector<std::int64_t>& units)
      : pipeline_(pipeline), units_(units), lanes_(static_cast<std::size_t>(pipeline.lanes)) {
    for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
      take_unit(lane);
    }
  }

  PipelineTimes run() {
    while (set_rates()) {
      double step = std::numeric_limits<double>::max();
      for (const Lane& lane : lanes_) {
        step = lane.rate > 0.0 ? std::min(step, lane.left / lane.rate) : step;
      }
      times_.whole += step;
      times_.idle += step * (1.0 - used_);
      for (std::size_t i = 0; i < lanes_.size(); ++i) {
        Lane& lane = lanes_[i];
        lane.left -= step * lane.rate;
        if (lane.rate > 0.0 && lane.left <= 1e-9) {
          advance(i);
        }
      }
    }
    return times_;
  }

 private:
  void take_unit(std::size_t i) {
    Lane& lane = lanes_[i];
    lane = {};
    if (next_ < units_.size()) {
      lane.stage = Stage::kBus;
      lane.matrices = static_cast<double>(units_[next_++]);
      lane.left = lane.matrices * pipeline_.bus;
      queue_.push_back(i);
    }
  }

  void advance(std::size_t i) {
    Lane& lane = lanes_[i];
    if (lane.stage == Stage::kBus) {
      times_.fill = times_.fill > 0.0 ? times_.fill : times_.whole;
      queue_.erase(std::find(queue_.begin(), queue_.end(), i));
      lane.stage = Stage::kKernels;
      lane.left = lane.matrices * pipeline_.kernels;
    } else if (lane.stage == Stage::kKernels) {
      lane.stage = Stage::kHost;
      lane.left = lane.matrices * pipeline_.host + pipeline_.call;
    } else {
      take_unit(i);
    }
  }

  /// The part of the device that the kernels of a lane can use.
  double reach(const Lane& lane) const {
    return std::min(1.0, lane.matrices * pipeline_.kernels / pipeline_.least_kernels);
  }

  /// False where everything is over.
  bool set_rates() {
    double wanted = 0.0;
    for (const Lane& lane : lanes_) {
      wanted += lane.stage == Stage::kKernels ? reach(lane) : 0.0;
    }
    used_ = std::min(1.0, wanted);
    bool any = false;
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
      Lane& lane = lanes_[i];
      any = any || lane.stage != Stage::kOver;
      lane.rate = 0.0;
      if (lane.stage == Stage::kHost) {
        lane.rate = 1.0;
      } else if (lane.stage == Stage::kKernels) {
        lane.rate = reach(lane) / std::max(1.0, wanted);
      } else if (lane.stage == Stage::kBus) {
        const bool has_turn = !pipeline_.takes_turns || queue_.front() == i;
        lane.rate = !has_turn               ? 0.0
                    : pipeline_.takes_turns ? 1.0
                                            : 1.0 / static_cast<double>(queue_.size());
      }
    }
    return any;
  }

  Pipeline pipeline_;
  const std::vector<std::int64_t>& units_;
  std::vector<Lane> lanes_;
  std::vector<std::size_t> queue_;  ///< lanes at the bus, in the order of their coming
  std::size_t next_ = 0;
  double used_ = 0.0;
  PipelineTimes times_;
};

}  // namespace

PipelineTimes run_pipeline(const Pipeline& pipeline, const std::vector<std::int64_t>& units) {
  return Model(pipeline, units).run();
}

}  // namespace vindex::throughput
