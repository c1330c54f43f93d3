// Owns the measurement of one batch of matrices of one encoding and shape on one stream: upload,
// the steps that statistics/judgement/judgement.hpp asks for, reports. Encoded weights stay on the
// device until every matrix is done, so that host memory is given back after the upload.
#pragma once

#include "batch_memory.hpp"

#include "backend/backend.hpp"
#include "core/process/stop.hpp"
#include "kernels/decode/encoded_batch.hpp"
#include "kernels/decode/upload_turns.hpp"
#include "kernels/device/handles.hpp"
#include "kernels/tail/tail_solver.hpp"
#include "kernels/top/top_solvers.hpp"
#include "statistics/judgement/step_result.hpp"

#include <algorithm>
#include <functional>
#include <memory>
#include <span>
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

/// The solvers for the ends of a spectrum, each with memory of its own.
struct EdgeSolvers {
  FastSolver fast;
  VectorSolver vectors;
  TailSolver tail;
};

/// One concurrent call's streams, handles and memory. Kept between calls.
struct Lane {
  /// `bus` must outlive it.
  explicit Lane(UploadTurns& bus) : turns(bus) {}

  UploadTurns& turns;
  SolverLane solver;
  Stream copies = make_stream();
  DeviceBuffer encoded{"encoded weights"};
  DeviceBuffer arena{"Gram matrices and their reductions"};
  DeviceBuffer results{"results"};
  PinnedBuffer host_results;
  std::unique_ptr<EdgeSolvers> ends = std::make_unique<EdgeSolvers>();
  LaneAccount account;

  /// Gives all memory of the device back; waits for it.
  void release();
};

class BatchSolver {
 public:
  /// Everything referred to must outlive the solver. Takes the lane's memory for `sizes`.
  /// Errors: OutOfMemory, before any input was touched.
  BatchSolver(Lane& lane, const KernelTable& kernels, const BatchTask& task,
              const BatchSizes& sizes, const MeasureOptions& options);

  /// At most sizes.batch matrices; `slab_bytes` as Uploader has it. Fills `out`; every input is
  /// released. Errors: DeviceError; read errors of the inputs.
  void measure(std::span<MatrixInput* const> inputs, std::uint64_t slab_bytes,
               std::span<MatrixReport> out);

 private:
  /// Which matrices of the batch.
  using Indices = std::vector<std::size_t>;
  using StepResult = statistics::StepResult;
  /// What becomes of one matrix's finding, which it may empty.
  using Judged = std::function<statistics::NextStep(std::size_t index, StepResult& found,
                                                    const statistics::StepContext& situation)>;

  /// One whose smallest values a Gram has lost.
  struct LostTail {
    std::size_t index = 0;      ///< of the batch
    std::int64_t position = 0;  ///< among those that the Gram's step took together
    std::int64_t lost = 0;
    StepResult before = {};
  };

  statistics::Step first_step() const;
  void take_steps(statistics::StepContext situation, Indices which, SignDraw flip,
                  const Judged& judged);
  std::vector<Indices> parts_of(const statistics::StepContext& situation,
                                const Indices& which) const;
  std::vector<StepResult> compute(statistics::Step step, const Indices& which, SignDraw flip,
                                  bool is_first);
  void run_sign_flips(const Indices& all);

  std::vector<StepResult> run_route(const SpectrumRoute& route, const Indices& which,
                                    SignDraw flip);
  std::vector<StepResult> run_float32(const Indices& which, SignDraw flip);
  std::vector<StepResult> run_float64(const SpectrumRoute& route, const Indices& which,
                                      SignDraw flip);
  std::vector<StepResult> run_qr(const Indices& which, SignDraw flip);
  std::vector<StepResult> run_qr_after(const Indices& which, SignDraw flip);
  std::vector<double> values_by_qr(std::size_t index, SignDraw flip);
  /// Decodes the matrix `index` to phase.wide in the order of its chunks; after each of them
  /// decoded(first_row, row_count), while phase.decoded holds it. Where the long side is the rows,
  /// every chunk goes to slab(WeightSlab), else the whole matrix at the end: what is summed over
  /// slabs is summed along the long side.
  template <typename Phase, typename Decoded, typename Slab>
  void for_each_slab(std::size_t index, SignDraw flip, const Phase& phase, const Decoded& decoded,
                     const Slab& slab);
  void form_grams32(const Indices& which, SignDraw flip, ProductKernel product, float* grams,
                    void* workspace, std::size_t workspace_bytes, GramFacts* facts);
  void form_grams64(const Indices& which, SignDraw flip, const Float64Phase& phase,
                    RawMoments* moments);  // in batch_grams.cpp
  void form_gram64(std::size_t index, SignDraw flip, const Float64Phase& phase, double* gram,
                   RawMoments* moments);
  /// Which of `found`, the float32 spectra of `which` that were computed last, float32 stages leave
  /// in doubt: those get the values of float64 stages, from the bands that were kept.
  void settle_stages(const statistics::StepContext& situation, const Indices& which, bool is_draw,
                     std::vector<StepResult>& found);
  statistics::Rounding gram_rounding_of(const SpectrumRoute& route, const StagePrecision& stages,
                                        bool has_rounded_codes,
                                        const statistics::GramNorms& norms) const;
  void form_grams64_together(const Indices& which, const Float64Phase& phase, RawMoments* moments);
  BatchResults download(std::int64_t batch);
  std::vector<StepResult> facts_in(const BatchResults& results, const SpectrumRoute& route,
                                   std::size_t count) const;
  std::vector<StepResult> found_in(const BatchResults& results, const SpectrumRoute& route,
                                   std::size_t count);

  // In batch_tail.cpp.
  std::vector<StepResult> run_tail(const statistics::StepContext& situation, std::size_t part_size,
                                   std::span<const LostTail> lost);
  void tail_group(const statistics::StepContext& situation, const KeptReduction& kept,
                  const WeightPhase& weights, const TailShape& shape,
                  std::span<const std::size_t> group, std::span<const LostTail> lost,
                  std::vector<StepResult>& found);
  bool take_member(const statistics::StepContext& situation, const TailShape& shape,
                   std::int64_t member, int pass, const LostTail& lost, StepResult& found) const;

  // In batch_top.cpp.
  void run_vectors();
  void vectors_of(const Indices& which);
  std::vector<StepResult> run_top(const Indices& which, SignDraw flip);
  std::vector<FastMatrix> form_top_grams(const TopPhase& phase, const Indices& which, SignDraw flip,
                                         std::vector<StepResult>& found);
  /// One pass over the weights of one matrix, in float64, for the solver's matrix `position`.
  template <typename Solver, typename Phase>
  void add_weights(Solver& solver, std::int64_t position, std::size_t index, SignDraw flip,
                   const Phase& phase) {
    for_each_slab(
        index, flip, phase, [](std::int64_t, std::int64_t) {},
        [&](const WeightSlab& slab) { solver.add(handles(), position, slab); });
  }
  void add_together(std::span<const std::size_t> which, SignDraw flip, const TopPhase& phase);
  LibraryHandles handles() const;
  cudaStream_t stream() const { return lane_.solver.stream.get(); }

  Lane& lane_;
  const KernelTable& kernels_;
  const BatchTask& task_;
  const BatchSizes sizes_;
  const MeasureOptions& options_;
  EncodedBatch batch_;
  void* arena_;
  std::size_t arena_bytes_;
  void* device_results_;
  void* host_results_;
  std::size_t result_bytes_;

  std::span<MatrixReport> out_;
  std::vector<bool> rounded_codes_;      ///< whether the last Grams are of CodeScales::kRounded
  std::size_t ahead_ = 0;                ///< matrices to be copied while the device computes
  std::vector<std::int32_t> exponents_;  ///< of the last Grams: true ones over their bands
  std::vector<statistics::GramNorms> norms_;  ///< of the last Grams
  StageClock gram_clock_, eigen_clock_;
};

template <typename Phase, typename Decoded, typename Slab>
void BatchSolver::for_each_slab(std::size_t index, SignDraw flip, const Phase& phase,
                                const Decoded& decoded, const Slab& slab) {
  throw_if_stopped(options_.stop);
  const std::int64_t step = task_.chunk_rows();
  for (std::int64_t first = 0; first < task_.rows; first += step) {
    const std::int64_t count = std::min(step, task_.rows - first);
    double* const wide = phase.wide + (task_.row_chunks() ? 0 : first * task_.cols);
    batch_.decode_rows(index, flip, first, count, phase.decoded, wide);
    decoded(first, count);
    if (task_.row_chunks()) {
      slab(WeightSlab{.weights = wide, .over_rows = true, .first = first, .length = count});
    }
  }
  if (!task_.row_chunks()) {
    slab(WeightSlab{.weights = phase.wide, .over_rows = false, .first = 0, .length = task_.cols});
  }
}

}  // namespace vindex::kernels
