#include "batch/batch_solver.hpp"

#include "decode/decode_matrix.hpp"
#include "device/range.hpp"

#include <vindex/measure/spectrum_checks.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace vindex::kernels {

using measure::MatrixInput;
using measure::MatrixReport;
using measure::Mode;
using measure::Status;

namespace {

/// Matrices uploaded between two launches of the float32 Gram: its kernels take so many at once.
constexpr std::size_t kChunk = 32;

}  // namespace

BatchSolver::BatchSolver(Lane& lane, const KernelTable& kernels, const BatchTask& task,
                         const BatchSizes& sizes, const measure::MeasureOptions& options)
    : lane_(lane), kernels_(kernels), task_(task), sizes_(sizes), options_(options) {
  result_bytes_ = result_bytes(task, sizes.batch);
  arena_bytes_ = arena_bytes(task, sizes);
  encoded_ = lane.encoded.reserve_array<std::uint8_t>(task.slot.total_bytes *
                                                      static_cast<std::size_t>(sizes.batch));
  arena_ = lane.arena.reserve(arena_bytes_);
  device_results_ = lane.results.reserve(result_bytes_);
  host_results_ = lane.host_results.reserve(result_bytes_);
}

void BatchSolver::measure(std::span<MatrixInput* const> inputs, std::uint64_t slab_bytes,
                          std::span<MatrixReport> out) {
  expects(static_cast<std::int64_t>(inputs.size()) <= sizes_.batch, "a batch that was planned for");
  inputs_ = inputs;
  out_ = out;
  matrices_.clear();
  Uploader uploader(lane_.copies.get(), slab_bytes);
  uploader_ = &uploader;
  Indices all(inputs.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  if (is_fast_by_iteration()) {
    measure_fast(all);
  } else {
    measure_whole(all);
  }
  uploader.finish();
  if (options_.sign_flip_draws > 0) {
    run_sign_flips(all);
  }
  if (options_.vectors > 0) {
    run_vectors();
  }
  const auto count = static_cast<double>(inputs.size());
  const double gram = gram_clock_.take_seconds() / count;
  const double eigen = eigen_clock_.take_seconds() / count;
  for (MatrixReport& report : out_) {
    report.seconds_gram = gram;
    report.seconds_eigen = eigen;
  }
  uploader_ = nullptr;
}

/// All singular values; of `fast` the top ones with their bounds are kept.
void BatchSolver::measure_whole(const Indices& which) {
  if (task_.strict_at_once) {
    run_strict(which);
    return;
  }
  const std::vector<Found> found = run_route(task_.routes.first, which, std::nullopt);
  Indices doubtful;
  judge_first(found, which, doubtful);
  run_strict(doubtful);
  if (options_.mode == Mode::kFast) {
    for (const std::size_t index : which) {
      keep_fast(task_.n(), task_.p(), out_[index]);
    }
  }
}

/// Sees that the first `count` matrices of the batch are on the device before what comes next.
void BatchSolver::upload(std::size_t count) {
  bool any = false;
  while (matrices_.size() < count) {
    const std::size_t i = matrices_.size();
    matrices_.push_back(
        uploader_->upload(*inputs_[i], task_.slot, encoded_ + i * task_.slot.total_bytes));
    any = true;
  }
  if (any) {
    uploader_->order_before(stream());
  }
}

std::vector<BatchSolver::Found> BatchSolver::run_route(const SpectrumRoute& route,
                                                       const Indices& which, SignDraw flip) {
  if (which.empty()) {
    return {};
  }
  check(cudaMemsetAsync(device_results_, 0, result_bytes_, stream()));
  if (route.is_float32()) {
    return run_float32(which, flip);
  }
  return route.solver == SolverChoice::kQr ? run_qr(which, flip) : run_float64(route, which, flip);
}

/// float32 Gram matrices on tensor cores, in the order of `which`.
void BatchSolver::form_grams32(const Indices& which, SignDraw flip, ProductKernel product,
                               float* grams, void* workspace, std::size_t workspace_bytes,
                               GramFacts* facts) {
  const GramShape shape = task_.gram_shape();
  std::vector<decode::DecodeView> views;
  std::vector<std::uint64_t> keys;
  for (std::size_t first = 0; first < which.size(); first += kChunk) {
    const std::size_t last = std::min(first + kChunk, which.size());
    upload(which[last - 1] + 1);
    views.clear();
    keys.clear();
    for (std::size_t i = first; i < last; ++i) {
      views.push_back(matrices_[which[i]].view);
      if (flip) {
        keys.push_back(matrices_[which[i]].sign_flip_key);
      }
    }
    const Range range("decode and gram");
    const StageClock::Span span(gram_clock_, stream());
    kernels_.gram(inputs_[0]->encoding(), task_.operands,
                  {views, keys, matrices_[which[0]].transposed, flip ? flip->value : 0}, workspace,
                  workspace_bytes, product,
                  grams + static_cast<std::int64_t>(first) * shape.gram_elements(), facts + first,
                  stream());
  }
}

std::vector<BatchSolver::Found> BatchSolver::run_float32(const Indices& which, SignDraw flip) {
  const auto count = static_cast<std::int64_t>(which.size());
  Carver memory(arena_, arena_bytes_);
  const Float32Phase phase(task_, count, memory);
  Carver result_memory(device_results_, result_bytes_);
  const BatchResults results(task_, count, result_memory);
  const GramShape shape = task_.gram_shape();
  form_grams32(which, flip, task_.routes.first.product, phase.grams, phase.gram_workspace,
               phase.gram_workspace_bytes, results.gram_facts);
  {
    const StageClock::Span span(eigen_clock_, stream());
    count_zero_rows(phase.grams, task_.p(), shape.order(), count, results.zero_rows, stream());
    two_stage_values(kernels_, phase.plan, phase.grams, phase.solver, lane_.solver.blas.get(),
                     {results.values, results.failed, results.exponents}, stream());
  }
  return found_in(download(count), task_.routes.first, which.size());
}

std::vector<BatchSolver::Found> BatchSolver::run_float64(const SpectrumRoute& route,
                                                         const Indices& which, SignDraw flip) {
  std::vector<Found> found;
  const auto most = static_cast<std::size_t>(sizes_.wide);
  for (std::size_t first = 0; first < which.size(); first += most) {
    const std::size_t last = std::min(first + most, which.size());
    const auto count = static_cast<std::int64_t>(last - first);
    Carver memory(arena_, arena_bytes_);
    const Float64Phase phase(task_, route, count, memory);
    Carver result_memory(device_results_, result_bytes_);
    const BatchResults results(task_, count, result_memory);
    const std::int64_t elements = phase.leading * phase.leading;
    if (phase.leading != task_.p()) {
      check(cudaMemsetAsync(phase.grams, 0,
                            static_cast<std::size_t>(count * elements) * sizeof(double), stream()));
    }
    for (std::size_t i = first; i < last; ++i) {
      upload(which[i] + 1);
      const Range range("decode and gram");
      const StageClock::Span span(gram_clock_, stream());
      const auto position = static_cast<std::int64_t>(i - first);
      form_gram64(matrices_[which[i]], flip, phase, phase.grams + position * elements,
                  results.moments + position * task_.chunk_count());
    }
    {
      const StageClock::Span span(eigen_clock_, stream());
      complete_symmetric(phase.grams, task_.p(), phase.leading, count, phase.symmetric_workspace,
                         results.symmetric_facts, stream());
      if (route.solver == SolverChoice::kTwoStage) {
        two_stage_values(kernels_, phase.plan, phase.grams, phase.solver, lane_.solver.blas.get(),
                         {results.values, results.failed, results.exponents}, stream());
      } else {
        const Range range("library eigenvalues");
        library_eigenvalues(lane_.solver, phase.grams, task_.p(), count, results.values,
                            results.failed);
      }
    }
    for (Found& one : found_in(download(count), route, last - first)) {
      found.push_back(std::move(one));
    }
  }
  return found;
}

/// `count` rows from `first`, decoded and, where asked for, with random signs; then as doubles.
void BatchSolver::decode_chunk(const DeviceMatrix& matrix, SignDraw flip, std::int64_t first,
                               std::int64_t count, float* decoded, double* wide) {
  decode_matrix(inputs_[0]->encoding(), rows_of(inputs_[0]->encoding(), matrix.view, first, count),
                decoded, task_.cols, stream());
  if (flip) {
    flip_signs(decoded, count, task_.cols,
               {.key = matrix.sign_flip_key,
                .draw = flip->value,
                .transposed = matrix.transposed,
                .whole_rows = task_.rows,
                .whole_cols = task_.cols,
                .first_row = first,
                .first_col = 0},
               stream());
  }
  widen(decoded, count * task_.cols, wide, stream());
}

void BatchSolver::form_gram64(const DeviceMatrix& matrix, SignDraw flip, const Float64Phase& phase,
                              double* gram, RawMoments* moments) {
  const std::int64_t step = task_.chunk_rows();
  for (std::int64_t first = 0; first < task_.rows; first += step) {
    const std::int64_t count = std::min(step, task_.rows - first);
    double* const wide = phase.wide + (task_.row_chunks() ? 0 : first * task_.cols);
    decode_chunk(matrix, flip, first, count, phase.decoded, wide);
    take_moments(phase.decoded, count * task_.cols, phase.scratch, phase.scratch_bytes,
                 moments + first / step, stream());
    if (task_.row_chunks()) {
      add_gram(lane_.solver, wide, true, count, task_.p(), phase.leading, first == 0, gram);
    }
  }
  if (!task_.row_chunks()) {
    add_gram(lane_.solver, phase.wide, false, task_.cols, task_.p(), phase.leading, true, gram);
  }
}

std::vector<double> BatchSolver::run_qr(const DeviceMatrix& matrix, SignDraw flip) {
  const Range range("qr and bidiagonal");
  const StageClock::Span span(eigen_clock_, stream());
  Carver memory(arena_, arena_bytes_);
  const QrPhase phase(task_, memory);
  const std::int64_t step = task_.chunk_rows();
  for (std::int64_t first = 0; first < task_.rows; first += step) {
    const std::int64_t count = std::min(step, task_.rows - first);
    double* const wide = phase.wide + (task_.row_chunks() ? 0 : first * task_.cols);
    decode_chunk(matrix, flip, first, count, phase.decoded, wide);
    if (task_.row_chunks()) {
      add_to_factor(lane_.solver, wide, true, count, task_.p(), first == 0, phase.factor);
    }
  }
  if (!task_.row_chunks()) {
    add_to_factor(lane_.solver, phase.wide, false, task_.cols, task_.p(), true, phase.factor);
  }
  return library_singular_values(lane_.solver, phase.factor.r, task_.p(), phase.values,
                                 phase.factor.info);
}

/// The route `qr` for whole batches: the moments and the norm still come from a Gram.
std::vector<BatchSolver::Found> BatchSolver::run_qr(const Indices& which, SignDraw flip) {
  const SpectrumRoute gram_route = {.gram = GramChoice::kLibrary64,
                                    .solver = SolverChoice::kLibrary};
  std::vector<Found> found = run_float64(gram_route, which, flip);
  for (std::size_t i = 0; i < which.size(); ++i) {
    if (found[i].moments.nonfinite == 0) {
      found[i].spectrum = {.sigma = run_qr(matrices_[which[i]], flip), .negative = false};
    }
  }
  return found;
}

/// Everything the device found, in host memory. Waits.
BatchResults BatchSolver::download(std::int64_t batch) {
  check(cudaMemcpyAsync(host_results_, device_results_, result_bytes(task_, batch),
                        cudaMemcpyDeviceToHost, stream()));
  check(cudaStreamSynchronize(stream()));
  Carver memory(host_results_, result_bytes_);
  return {task_, batch, memory};
}

std::vector<BatchSolver::Found> BatchSolver::found_in(const BatchResults& results,
                                                      const SpectrumRoute& route,
                                                      std::size_t count) const {
  std::vector<Found> found(count);
  for (std::size_t i = 0; i < count; ++i) {
    Found& one = found[i];
    int exponent = results.exponents[i];
    if (route.is_float32()) {
      one.moments = moments_of(results.gram_facts[i]);
      one.gram_norm_squared = gram_norm_squared(results.gram_facts[i]);
      one.zero_rows = results.zero_rows[i];
      exponent += 2 * results.gram_facts[i].exponent;
    } else {
      const RawMoments* chunks =
          results.moments + static_cast<std::int64_t>(i) * task_.chunk_count();
      for (std::int64_t chunk = 0; chunk < task_.chunk_count(); ++chunk) {
        one.moments = decode::merge(one.moments, moments_of(chunks[chunk]));
      }
      one.gram_norm_squared = results.symmetric_facts[i].norm_squared;
      one.zero_rows = results.symmetric_facts[i].zero_rows;
    }
    one.spectrum = singular_values_of(
        {.eigenvalues = {results.values + static_cast<std::int64_t>(i) * task_.p(),
                         static_cast<std::size_t>(task_.p())},
         .exponent = exponent,
         .zero_rows = one.zero_rows,
         .failed = results.failed[i] != 0});
  }
  return found;
}

void BatchSolver::keep(const Found& found, const SpectrumRoute& route, std::size_t index) {
  MatrixReport& report = out_[index];
  report.moments = found.moments;
  report.gram_norm_squared = found.gram_norm_squared;
  report.method = route.method();
  fill_report(found.spectrum, task_.p(), report);
}

/// Reports of the first route, and which of them need a stricter one.
void BatchSolver::judge_first(const std::vector<Found>& found, const Indices& which,
                              Indices& doubtful) {
  const bool is_strict = options_.mode == Mode::kStrict;
  const bool wants_tail = options_.mode != Mode::kFast;
  for (std::size_t i = 0; i < which.size(); ++i) {
    const std::size_t index = which[i];
    keep(found[i], task_.routes.first, index);
    MatrixReport& report = out_[index];
    if (task_.routes.first.solver == SolverChoice::kQr || report.moments.nonfinite > 0 ||
        report.moments.max_abs() == 0.0) {
      continue;
    }
    if (task_.routes.may_escalate
            ? is_doubtful(found[i].spectrum, report)
            : report.status == Status::kNotConverged || measure::checks_alarm(report) ||
                  beyond_gram64(found[i].spectrum, found[i].zero_rows)) {
      const bool may = is_strict || options_.escalate;
      if (may && (wants_tail || report.status == Status::kNotConverged)) {
        doubtful.push_back(index);
        report.escalated = !is_strict;
      } else {
        report.tail_reliable = false;
      }
    }
  }
}

/// float64 Gram for those that had none, QR for what a Gram cannot hold.
void BatchSolver::run_strict(const Indices& doubtful) {
  Indices beyond = doubtful;
  if (task_.routes.may_escalate) {
    beyond.clear();
    const std::vector<Found> found = run_route(task_.routes.strict, doubtful, std::nullopt);
    for (std::size_t i = 0; i < doubtful.size(); ++i) {
      keep(found[i], task_.routes.strict, doubtful[i]);
      const MatrixReport& report = out_[doubtful[i]];
      if (report.moments.nonfinite > 0 || report.moments.max_abs() == 0.0) {
        continue;
      }
      if (report.status == Status::kNotConverged || measure::checks_alarm(report) ||
          beyond_gram64(found[i].spectrum, found[i].zero_rows)) {
        beyond.push_back(doubtful[i]);
      }
    }
  }
  for (const std::size_t index : beyond) {
    MatrixReport& report = out_[index];
    report.method = SpectrumRoute{.solver = SolverChoice::kQr}.method();
    fill_report({.sigma = run_qr(matrices_[index], std::nullopt), .negative = false}, task_.p(),
                report);
  }
}

/// Draws are not escalated: nothing that is taken from them depends on their smallest values.
void BatchSolver::run_sign_flips(const Indices& which) {
  const measure::SignFlipCollector collector(task_.rows, task_.cols, options_.mode);
  Indices with_values;
  for (const std::size_t index : which) {
    MatrixReport& report = out_[index];
    if (report.status != Status::kMeasured) {
      continue;
    }
    report.sign_flip.emplace();
    if (report.moments.max_abs() > 0.0) {
      with_values.push_back(index);
      continue;
    }
    for (std::int32_t draw = 0; draw < options_.sign_flip_draws; ++draw) {
      collector.add(report.sigma, 0.0, *report.sign_flip);
    }
  }
  for (std::int32_t draw = 0; draw < options_.sign_flip_draws; ++draw) {
    const DrawNumber number = {static_cast<std::uint64_t>(draw)};
    auto values = is_fast_by_iteration() ? sign_flipped_top(with_values, number)
                                         : sign_flipped_values(with_values, number);
    for (std::size_t i = 0; i < with_values.size(); ++i) {
      MatrixReport& report = out_[with_values[i]];
      collector.add(std::move(values[i]), report.moments.sum_squares, *report.sign_flip);
    }
  }
}

/// All singular values of one draw of `which`, by the first route.
std::vector<std::vector<double>> BatchSolver::sign_flipped_values(const Indices& which,
                                                                  DrawNumber draw) {
  std::vector<std::vector<double>> values;
  for (Found& found : run_route(task_.routes.first, which, draw)) {
    values.push_back(std::move(found.spectrum.sigma));
  }
  return values;
}

}  // namespace vindex::kernels
