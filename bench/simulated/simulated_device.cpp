// Owns the sleeping bus and kernels, and the host's part of a call.
#include "simulated_device.hpp"

#include "simulated_cores.hpp"

#include "kernels/decode/upload_turns.hpp"
#include "statistics/judgement/first_step.hpp"
#include "statistics/judgement/judgement.hpp"
#include "statistics/judgement/spectrum_error.hpp"
#include "statistics/judgement/step_result.hpp"
#include "throughput/sampling.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <deque>
#include <mutex>
#include <utility>
#include <vector>

namespace vindex::throughput {

namespace {

using Clock = std::chrono::steady_clock;

Clock::duration duration_of(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

/// Buffers that are given back, of one size mostly.
class KeptStaging : public std::enable_shared_from_this<KeptStaging> {
 public:
  std::unique_ptr<StagingBuffer> take(std::size_t bytes) {
    {
      const std::lock_guard lock(mutex_);
      for (auto kept = kept_.begin(); kept != kept_.end(); ++kept) {
        if ((*kept)->bytes().size() >= bytes) {
          auto found = std::make_unique<Buffer>(shared_from_this(), std::move(*kept));
          kept_.erase(kept);
          return found;
        }
      }
    }
    auto made = make_host_staging(bytes);
    std::memset(made->bytes().data(), 1, made->bytes().size());
    return std::make_unique<Buffer>(shared_from_this(), std::move(made));
  }

 private:
  class Buffer final : public StagingBuffer {
   public:
    Buffer(std::shared_ptr<KeptStaging> home, std::unique_ptr<StagingBuffer> buffer)
        : home_(std::move(home)), buffer_(std::move(buffer)) {}
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    ~Buffer() override {
      const std::lock_guard lock(home_->mutex_);
      home_->kept_.push_back(std::move(buffer_));
    }
    std::span<std::byte> bytes() override { return buffer_->bytes(); }

   private:
    std::shared_ptr<KeptStaging> home_;
    std::unique_ptr<StagingBuffer> buffer_;
  };
  std::mutex mutex_;
  std::vector<std::unique_ptr<StagingBuffer>> kept_;
};

class SimulatedDevice final : public Backend {
 public:
  SimulatedDevice(const DeviceModel& model,
                  std::function<const MatrixReport&(std::int64_t, std::int64_t)> report,
                  std::function<void(const DeviceCall&)> ended)
      : model_(model), report_(std::move(report)), ended_(std::move(ended)) {}

  BackendInfo info() const override { return {"cuda", "simulated", {}}; }
  BackendLimits limits() const override {
    return {.concurrent_calls = model_.lanes,
            .batch = model_.batch,
            .device_bytes = std::uint64_t{1} << 36U,
            .held_inputs = model_.held};
  }
  /// Touched and kept, as pinned memory is.
  std::unique_ptr<StagingBuffer> make_staging(std::size_t bytes) override {
    return staging_->take(bytes);
  }
  std::uint64_t workspace_bytes(const decode::Encoding& /*encoding*/, std::int64_t rows,
                                std::int64_t cols, const MeasureOptions& /*options*/,
                                InputBytes /*input*/) const override {
    return (16ULL << 20U) + 64 * static_cast<std::uint64_t>(std::min(rows, cols));
  }
  void measure(std::span<MatrixInput* const> batch, const MeasureOptions& options,
               std::uint64_t /*workspace_limit*/, std::span<MatrixReport> out) override {
    DeviceCall call{.entered = wall_seconds()};
    const auto piece = static_cast<std::size_t>(model_.piece);
    for (std::size_t first = 0; first < batch.size(); first += piece) {
      const std::size_t count = std::min(piece, batch.size() - first);
      upload(batch.subspan(first, count), call);
      compute(count, call);
      for (std::size_t i = first; i < first + count; ++i) {
        judge(*batch[i], options, out[i]);
      }
    }
    call.left = wall_seconds();
    ended_(call);
  }
  void decode(const decode::EncodedMatrix& /*matrix*/, std::span<float> /*out*/) override {
    expects(false, "a simulated back end decodes nothing");
  }

 private:
  void upload(std::span<MatrixInput* const> batch, DeviceCall& call) {
    const kernels::UploadTurns::Turn turn(bus_);
    std::deque<std::pair<MatrixInput*, Clock::time_point>> held;
    const auto release_oldest = [&] {
      sleep_until(held.front().second);
      held.front().first->release();
      held.pop_front();
    };
    Clock::time_point bus = Clock::now();
    for (MatrixInput* const input : batch) {
      while (std::ssize(held) >= model_.held) {
        release_oldest();
      }
      const decode::EncodedMatrix all = input->row_slab(0, input->rows());
      const double seconds =
          static_cast<double>(all.rows * all.row_stride_bytes) / model_.bus_bytes_per_second;
      call.asked += seconds;
      bus = std::max(bus, Clock::now()) + duration_of(seconds);
      held.emplace_back(input, bus);
    }
    while (!held.empty()) {
      release_oldest();
    }
  }

  void compute(std::size_t count, DeviceCall& call) {
    const double seconds = static_cast<double>(count) * model_.seconds_per_matrix;
    call.asked += seconds;
    const Clock::time_point now = Clock::now();
    Clock::time_point end;
    {
      const std::lock_guard lock(mutex_);
      end = device_free_ = std::max(device_free_, now) + duration_of(seconds);
    }
    sleep_until(std::max(end, now + duration_of(model_.least_seconds)));
  }

  /// As kernels/batch/batch_solver.cpp: BatchSolver::found_in(), and the judgement.
  void judge(const MatrixInput& input, const MeasureOptions& options, MatrixReport& out) {
    const MatrixReport& known = report_(input.rows(), input.cols());
    const std::int64_t p = std::min(input.rows(), input.cols());
    const std::int64_t n = std::max(input.rows(), input.cols());
    const double scale = 1.0 + 1e-3 * static_cast<double>(judged_++ % 1000);
    std::vector<double> eigenvalues(known.sigma.rbegin(), known.sigma.rend());
    double norm_squared = 0.0;
    for (double& value : eigenvalues) {
      value *= scale * value * scale;
      norm_squared += value * value;
    }
    statistics::StepResult found;
    found.method = known.method;
    found.moments = known.moments;
    found.moments.sum_squares *= scale * scale;
    found.gram_norm_squared = norm_squared;
    statistics::take_eigenvalues({.eigenvalues = eigenvalues}, found);
    found.rounding = statistics::gram_rounding(
        {.unit = 0x1p-23, .depth = 128, .reduction_unit = 0x1p-23}, p, n,
        {.sum_squares = found.moments.sum_squares,
         .gram_norm_squared = norm_squared,
         .diagonal_norm_squared = norm_squared,
         .largest_diagonal = eigenvalues.back(),
         .passes_norm_squared = statistics::passes_norm_squared(p, norm_squared)});
    const statistics::StepContext situation = statistics::begin_measurement(
        statistics::Step::kGram32, input.rows(), input.cols(), options,
        {.sum_terms = static_cast<double>(n), .max_tail_values = 128});
    (void)statistics::judge(found, situation, out);
  }

  DeviceModel model_;
  std::shared_ptr<KeptStaging> staging_ = std::make_shared<KeptStaging>();
  std::function<const MatrixReport&(std::int64_t, std::int64_t)> report_;
  std::function<void(const DeviceCall&)> ended_;
  std::atomic<std::int64_t> judged_{0};
  kernels::UploadTurns bus_;
  std::mutex mutex_;
  Clock::time_point device_free_{};
};

}  // namespace

std::unique_ptr<Backend> make_simulated_device(
    const DeviceModel& model, std::function<const MatrixReport&(std::int64_t, std::int64_t)> report,
    std::function<void(const DeviceCall&)> ended) {
  return std::make_unique<SimulatedDevice>(model, std::move(report), std::move(ended));
}

}  // namespace vindex::throughput
