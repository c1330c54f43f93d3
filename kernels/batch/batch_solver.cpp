// Owns the order of the steps: upload and Gram matrix, reduction, values, then what the judgement
// asks for of the matrices that need it.
#include "batch_solver.hpp"

#include "kernels/device/range.hpp"
#include "statistics/judgement/first_step.hpp"
#include "statistics/judgement/judgement.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

namespace vindex::kernels {

using statistics::StepContext;
using statistics::StepResult;

namespace {

/// Matrices uploaded between two launches of the float32 Gram: its kernels take so many at once.
constexpr std::size_t kChunk = 32;

/// Tensor cores truncate sums of a step and drain them every 128 weights; the reduction's products
/// are of three TF32 terms. Two roundings of float32 for each.
///
/// Gram matrices of rounded E4M3 codes lack what float32 sums of their rounding lose
/// (code_slices.hpp).
///
/// What a panel is multiplied with adds up a line of p by multiply-add term by term on the plain
/// route, by tensor cores 16 at a time.
statistics::GramArithmetic arithmetic_of(const SpectrumRoute& route, std::int64_t p,
                                         bool of_rounded_codes, bool defers_updates) {
  constexpr double kUnit64 = 0x1p-53;
  constexpr double kUnit32 = 0x1p-23;
  const double unit = route.is_float32() ? kUnit32 : kUnit64;
  const double chain = static_cast<double>(p) / (route.band == BandRoute::kPlain ? 1.0 : 16.0);
  // An update for every panel left the smallest value of a power law of order 2048 with 1.4 of what
  // one unit answers for (deferred_accuracy_long_test.cpp); updates of several panels 0.6.
  constexpr std::int64_t kManyPanels = 1024;
  const bool is_often = route.is_float32() && !defers_updates && p > kManyPanels;
  return {.unit = of_rounded_codes ? kRoundedCodesUnit : unit,
          .depth = 128,
          .reduction_unit = is_often ? 2.0 * unit : unit,
          .reduction_chain = chain};
}

constexpr SpectrumRoute kQrRoute = {.solver = SolverChoice::kQr};

}  // namespace

void Lane::release() {
  check(cudaStreamSynchronize(solver.stream.get()));
  check(cudaStreamSynchronize(copies.get()));
  encoded.release();
  arena.release();
  results.release();
  solver.work.release();
  ends = std::make_unique<EdgeSolvers>();
  account = {};
}

BatchSolver::BatchSolver(Lane& lane, const KernelTable& kernels, const BatchTask& task,
                         const BatchSizes& sizes, const MeasureOptions& options)
    : lane_(lane),
      kernels_(kernels),
      task_(task),
      sizes_(sizes),
      options_(options),
      batch_(stream(), lane.copies.get(), lane.encoded, task.slot, sizes.batch) {
  result_bytes_ = result_bytes(task, sizes.batch);
  arena_bytes_ = arena_bytes(task, sizes);
  arena_ = lane.arena.reserve(arena_bytes_);
  device_results_ = lane.results.reserve(result_bytes_);
  host_results_ = lane.host_results.reserve(result_bytes_);
  if (task.max_tail_values() > 0) {
    lane.ends->tail.reserve(task.p(), task.n(), task.slab_length(), task.device.multiprocessors);
  }
}

void BatchSolver::measure(std::span<MatrixInput* const> inputs, std::uint64_t slab_bytes,
                          std::span<MatrixReport> out) {
  out_ = out;
  batch_.begin(inputs, slab_bytes);
  Indices all(inputs.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  take_steps(statistics::begin_measurement(first_step(), task_.rows, task_.cols, options_,
                                           {.sum_terms = static_cast<double>(task_.n()),
                                            .max_tail_values = task_.max_tail_values()}),
             all, std::nullopt,
             [&](std::size_t index, StepResult& found, const StepContext& situation) {
               return statistics::judge(found, situation, out_[index]);
             });
  batch_.finish();
  run_sign_flips(all);
  run_vectors();
  const auto count = static_cast<double>(inputs.size());
  const double gram = gram_clock_.take_seconds() / count;
  const double eigen = eigen_clock_.take_seconds() / count;
  for (MatrixReport& report : out_) {
    report.seconds_gram = gram;
    report.seconds_eigen = eigen;
  }
}

std::vector<StepResult> BatchSolver::run_route(const SpectrumRoute& route, const Indices& which,
                                               SignDraw flip) {
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
    throw_if_stopped(options_.stop);
    batch_.upload(which[last - 1] + 1);
    views.clear();
    keys.clear();
    for (std::size_t i = first; i < last; ++i) {
      views.push_back(batch_[which[i]].view);
      if (flip) {
        keys.push_back(batch_[which[i]].sign_flip_key);
      }
    }
    const Range range("decode and gram");
    const StageClock::Span span(gram_clock_, stream());
    kernels_.gram(batch_.encoding(), task_.operands,
                  {.views = views,
                   .sign_flip_keys = keys,
                   .transposed = batch_[which[0]].transposed,
                   .sign_flip_draw = flip ? flip->value : 0,
                   .native_operands = task_.routes.newer.native_operands},
                  workspace, workspace_bytes, product,
                  grams + static_cast<std::int64_t>(first) * shape.gram_elements(), facts + first,
                  stream());
  }
}

std::vector<StepResult> BatchSolver::run_float32(const Indices& which, SignDraw flip) {
  const auto count = static_cast<std::int64_t>(which.size());
  const std::int64_t piece = task_.eigen_piece(count);
  Arena memory(arena_, arena_bytes_);
  const Float32Phase phase(task_, piece, memory);
  Arena result_memory(device_results_, result_bytes_);
  const BatchResults results(task_, count, result_memory);
  // Piece by piece, so that the next one is read and uploaded while the device solves this one.
  for (std::int64_t first = 0; first < count; first += piece) {
    TwoStagePlan plan = phase.plan;
    plan.batch = std::min(piece, count - first);
    plan.already_scaled = true;  // by form_grams()
    const Indices part(which.begin() + first, which.begin() + first + plan.batch);
    {
      std::optional<UploadTurns::Turn> turn;
      if (!batch_.has_copied(part.back() + 1)) {
        turn.emplace(lane_.turns);
      }
      form_grams32(part, flip, task_.routes.first.product, phase.grams, phase.gram_workspace,
                   phase.gram_workspace_bytes, results.gram_facts + first);
      if (turn) {
        batch_.settle();
      }
    }
    const StageClock::Span span(eigen_clock_, stream());
    find_diagonal_facts(phase.grams, task_.p(), task_.gram_shape().order(), plan.batch,
                        results.diagonal_facts + first, stream());
    add_additive(phase.grams, task_.p(), task_.gram_shape().order(), plan.batch,
                 results.additive + first * kAdditiveParts, stream());
    two_stage_values(kernels_, plan, phase.grams, phase.solver,
                     {results.values + first * task_.p(), results.failed + first,
                      results.exponents + first, results.passes + first},
                     stream());
  }
  return found_in(download(count), task_.routes.first, which.size());
}

std::vector<StepResult> BatchSolver::run_float64(const SpectrumRoute& route, const Indices& which,
                                                 SignDraw flip) {
  std::vector<StepResult> found;
  const auto most = static_cast<std::size_t>(sizes_.wide);
  for (std::size_t first = 0; first < which.size(); first += most) {
    const std::size_t last = std::min(first + most, which.size());
    const auto count = static_cast<std::int64_t>(last - first);
    Arena memory(arena_, arena_bytes_);
    const Float64Phase phase(task_, route, count, memory);
    Arena result_memory(device_results_, result_bytes_);
    const BatchResults results(task_, count, result_memory);
    const std::int64_t elements = phase.leading * phase.leading;
    if (phase.leading != task_.p()) {
      check(cudaMemsetAsync(phase.grams, 0,
                            static_cast<std::size_t>(count * elements) * sizeof(double), stream()));
    }
    form_grams64(Indices(which.begin() + static_cast<std::ptrdiff_t>(first),
                         which.begin() + static_cast<std::ptrdiff_t>(last)),
                 flip, phase, results.moments);
    batch_.settle();
    {
      const StageClock::Span span(eigen_clock_, stream());
      complete_symmetric(phase.grams, task_.p(), phase.leading, count, phase.symmetric_workspace,
                         results.symmetric_facts, stream());
      if (route.solver == SolverChoice::kTwoStage) {
        two_stage_values(kernels_, phase.plan, phase.grams, phase.solver,
                         {results.values, results.failed, results.exponents, results.passes},
                         stream());
      } else {
        const Range range("library eigenvalues");
        library_eigenvalues(lane_.solver, phase.grams, task_.p(), count, results.values,
                            results.failed);
      }
    }
    for (StepResult& one : found_in(download(count), route, last - first)) {
      found.push_back(std::move(one));
    }
  }
  return found;
}

void BatchSolver::form_gram64(std::size_t index, SignDraw flip, const Float64Phase& phase,
                              double* gram, RawMoments* moments) {
  for_each_slab(
      index, flip, phase,
      [&](std::int64_t first, std::int64_t count) {
        take_moments(phase.decoded, count * task_.cols, phase.scratch, phase.scratch_bytes,
                     moments + first / task_.chunk_rows(), stream());
      },
      [&](const WeightSlab& slab) {
        if (task_.routes.sliced_gram) {
          kernels_.sliced_gram({.slab = slab.weights,
                                .over_rows = slab.over_rows,
                                .length = slab.length,
                                .p = task_.p(),
                                .first = slab.first == 0,
                                .leading = phase.leading,
                                .gram = gram},
                               phase.slices, stream());
          return;
        }
        add_gram(lane_.solver, slab.weights, slab.over_rows, slab.length, task_.p(), phase.leading,
                 slab.first == 0, gram);
      });
}

std::vector<double> BatchSolver::values_by_qr(std::size_t index, SignDraw flip) {
  const Range range("qr and bidiagonal");
  const StageClock::Span span(eigen_clock_, stream());
  Arena memory(arena_, arena_bytes_);
  const QrPhase phase(task_, memory);
  for_each_slab(
      index, flip, phase, [](std::int64_t, std::int64_t) {},
      [&](const WeightSlab& slab) {
        add_to_factor(lane_.solver, slab.weights, slab.over_rows, slab.length, task_.p(),
                      slab.first == 0, phase.factor);
      });
  return library_singular_values(lane_.solver, phase.factor.r, task_.p(), phase.values,
                                 phase.factor.info);
}

/// The route `qr` for whole batches: the moments and the norm still come from a Gram.
std::vector<StepResult> BatchSolver::run_qr(const Indices& which, SignDraw flip) {
  const SpectrumRoute gram_route = {.gram = GramChoice::kLibrary64,
                                    .solver = SolverChoice::kLibrary};
  std::vector<StepResult> found = run_float64(gram_route, which, flip);
  for (std::size_t i = 0; i < which.size(); ++i) {
    found[i].method = kQrRoute.method();
    found[i].negative = false;
    if (found[i].moments.nonfinite == 0) {
      found[i].sigma = values_by_qr(which[i], flip);
    }
  }
  return found;
}

/// Where a Gram of the same matrices was judged before: its facts are in the reports.
std::vector<StepResult> BatchSolver::run_qr_after(const Indices& which, SignDraw flip) {
  std::vector<StepResult> found;
  for (const std::size_t index : which) {
    found.push_back({.sigma = values_by_qr(index, flip),
                     .moments = out_[index].moments,
                     .gram_norm_squared = out_[index].gram_norm_squared,
                     .method = kQrRoute.method()});
  }
  return found;
}

/// Everything the device found, in host memory. Waits.
BatchResults BatchSolver::download(std::int64_t batch) {
  check(cudaMemcpyAsync(host_results_, device_results_, result_bytes(task_, batch),
                        cudaMemcpyDeviceToHost, stream()));
  if (ahead_ > 0) {
    const UploadTurns::Turn turn(lane_.turns);
    batch_.copy(ahead_);
    batch_.settle();
  }
  check(cudaStreamSynchronize(stream()));
  Arena memory(host_results_, result_bytes_);
  return {task_, batch, memory};
}

/// All but the values.
std::vector<StepResult> BatchSolver::facts_in(const BatchResults& results,
                                              const SpectrumRoute& route, std::size_t count) const {
  std::vector<StepResult> found(count);
  for (std::size_t i = 0; i < count; ++i) {
    StepResult& one = found[i];
    one.method = route.method();
    if (route.is_float32()) {
      one.moments = moments_of(results.gram_facts[i]);
      one.gram_norm_squared = gram_norm_squared(results.gram_facts[i]);
    } else {
      const RawMoments* chunks =
          results.moments + static_cast<std::int64_t>(i) * task_.chunk_count();
      for (std::int64_t chunk = 0; chunk < task_.chunk_count(); ++chunk) {
        one.moments = decode::merge(one.moments, moments_of(chunks[chunk]));
      }
      one.gram_norm_squared = results.symmetric_facts[i].norm_squared;
    }
  }
  return found;
}

statistics::Rounding BatchSolver::gram_rounding_of(const SpectrumRoute& route,
                                                   const StagePrecision& stages,
                                                   bool has_rounded_codes,
                                                   const statistics::GramNorms& norms) const {
  statistics::GramArithmetic arithmetic =
      arithmetic_of(route, task_.p(), has_rounded_codes,
                    task_.routes.newer.deferred_band && route.band == BandRoute::kTensor);
  if (route.solver == SolverChoice::kTwoStage) {
    arithmetic = with_stages(arithmetic, route.is_float32(), stages, task_.stored_chase_sweeps());
  }
  return statistics::gram_rounding(arithmetic, task_.p(), task_.n(), norms);
}

void BatchSolver::settle_stages(const StepContext& situation, const Indices& which, bool is_draw,
                                std::vector<StepResult>& found) {
  const SpectrumRoute& route = task_.routes.first;
  if (situation.step != statistics::Step::kGram32 || !task_.stages().any()) {
    return;
  }
  std::vector<std::int64_t> positions;
  for (std::size_t i = 0; i < which.size(); ++i) {
    if (!may_stand(found[i], gram_rounding_of(route, {}, false, norms_[i]), situation, is_draw)) {
      positions.push_back(static_cast<std::int64_t>(i));
    }
  }
  if (positions.empty()) {
    return;
  }
  const auto count = static_cast<std::int64_t>(which.size());
  // The layout of the step before.
  Arena memory(arena_, arena_bytes_);
  const Float32Phase phase(task_, count, memory);
  Arena result_memory(device_results_, result_bytes_);
  const BatchResults place(task_, count, result_memory);
  {
    const StageClock::Span span(eigen_clock_, stream());
    stages_in_float64(kernels_, phase.plan, phase.solver, positions,
                      {place.values, place.failed, place.exponents, place.passes}, stream());
  }
  const BatchResults results = download(count);
  for (std::size_t i = 0; i < positions.size(); ++i) {
    const auto at = static_cast<std::size_t>(positions[i]);
    StepResult& one = found[at];
    one.sigma.clear();
    one.negative = false;
    statistics::take_eigenvalues(
        {.eigenvalues = {results.values + static_cast<std::int64_t>(i) * task_.p(),
                         static_cast<std::size_t>(task_.p())},
         .exponent = exponents_[at],
         .zero_rows = one.zero_rows,
         .failed = results.failed[i] != 0},
        one);
    one.rounding = gram_rounding_of(route, {}, false, norms_[at]);
  }
}

std::vector<StepResult> BatchSolver::found_in(const BatchResults& results,
                                              const SpectrumRoute& route, std::size_t count) {
  std::vector<StepResult> found = facts_in(results, route, count);
  const StagePrecision stages = task_.stages();
  exponents_.assign(count, 0);
  norms_.assign(count, {});
  for (std::size_t i = 0; i < count; ++i) {
    const bool is_float32 = route.is_float32();
    const int unit = is_float32 ? results.gram_facts[i].gram_exponent : 0;
    exponents_[i] = results.exponents[i] + unit;
    const DiagonalFacts& diagonal =
        is_float32 ? results.diagonal_facts[i] : results.symmetric_facts[i].diagonal;
    statistics::take_eigenvalues(
        {.eigenvalues = {results.values + static_cast<std::int64_t>(i) * task_.p(),
                         static_cast<std::size_t>(task_.p())},
         .exponent = exponents_[i],
         .zero_rows = diagonal.zero_rows,
         .failed = results.failed[i] != 0},
        found[i]);
    // The library does not say what its reduction went through.
    const double passes =
        route.solver == SolverChoice::kTwoStage
            ? std::ldexp(results.passes[i], 2 * exponents_[i])
            : statistics::passes_norm_squared(task_.p(), found[i].gram_norm_squared);
    // Of the library's float64 Gram nothing is looked at: there a rounding is none to speak of.
    const double* const parts = results.additive + static_cast<std::int64_t>(i) * kAdditiveParts;
    const double additive =
        is_float32
            ? std::min(std::ldexp(std::accumulate(parts, parts + kAdditiveParts, 0.0), 2 * unit),
                       found[i].gram_norm_squared)
            : 0.0;
    norms_[i] = {.sum_squares = found[i].moments.sum_squares,
                 .gram_norm_squared = found[i].gram_norm_squared,
                 .diagonal_norm_squared = std::ldexp(diagonal.norm_squared, 2 * unit),
                 .largest_diagonal = std::ldexp(diagonal.largest, unit),
                 .additive_norm_squared = additive,
                 .passes_norm_squared = passes};
    found[i].rounding =
        gram_rounding_of(route, stages, !is_float32 && rounded_codes_[i], norms_[i]);
  }
  return found;
}

}  // namespace vindex::kernels
