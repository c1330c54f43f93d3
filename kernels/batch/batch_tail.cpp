// The smallest values of a batch again (kTail), from what the step before left in the arena.
#include "batch_solver.hpp"

#include "core/process/stop.hpp"
#include "kernels/device/range.hpp"
#include "statistics/judgement/judgement.hpp"
#include "statistics/judgement/step_result.hpp"
#include "statistics/judgement/tail_values.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

namespace vindex::kernels {

using statistics::StepContext;
using statistics::StepResult;

namespace {

constexpr int kMaxPasses = 4;
constexpr double kEps64 = 0x1p-52;

/// What makes the band positive definite, in its units: rounding may leave it with eigenvalues
/// below 0. The solves round in float64 whatever the reduction did.
double shift_for(const StepResult& before, std::int32_t exponent) {
  const double largest = before.sigma.front();
  const double entry = std::max(before.rounding.entry, 8.0 * kEps64 * largest * largest);
  return std::ldexp(statistics::matrix_error(0, 0.0, {.entry = 3.0 * entry}), -exponent);
}

/// Rounding in Ritz values v^T (W^T (W v)): products with W round in units of s_1 |W v|, where v is
/// any vector of the basis in the first pass, and nearly the Ritz vector in those behind a
/// correction; the small eigenproblem rounds in units of its largest value.
std::vector<double> rounding_of(std::span<const double> sigma, std::int64_t p, double largest,
                                int pass) {
  const double products = std::sqrt(static_cast<double>(p)) * kEps64 * largest;
  const double solver = 4.0 * kEps64 * sigma.front() * sigma.front();
  std::vector<double> errors;
  for (const double own : sigma) {
    errors.push_back(products * (pass == 0 ? sigma.front() : own) + solver);
  }
  return errors;
}

}  // namespace

/// The findings of kTail for `lost`, of a part of `part_size` matrices whose Grams were the last
/// that were reduced. Without tail_errors where the search did not settle.
std::vector<StepResult> BatchSolver::run_tail(const StepContext& situation, std::size_t part_size,
                                              std::span<const LostTail> lost) {
  std::vector<StepResult> found;
  for (const LostTail& one : lost) {
    found.push_back(one.before);
    found.back().tail_errors.clear();
  }
  const SpectrumRoute& route =
      situation.before == statistics::Step::kGram32 ? task_.routes.first : task_.routes.strict;
  if (route.solver != SolverChoice::kTwoStage) {
    return found;
  }
  const Range range("smallest singular values");
  const StageClock::Span span(eigen_clock_, stream());
  // The layout of the step before.
  const auto count = static_cast<std::int64_t>(part_size);
  Arena memory(arena_, arena_bytes_);
  KeptReduction kept;
  std::optional<WeightPhase> weights;
  if (route.is_float32()) {
    const Float32Phase phase(task_, count, memory);
    kept = {.matrices = phase.grams,
            .bands = phase.solver.kept_bands,
            .is_float32 = true,
            .wide_warps = task_.routes.newer.wide_back_transform
                              ? wide_transform_warps(task_.device.shared_bytes)
                              : 0};
    weights.emplace(task_, memory);
  } else {
    const Float64Phase phase(task_, route, count, memory);
    kept = {.matrices = phase.grams, .bands = phase.solver.kept_bands, .is_float32 = false};
    weights.emplace(phase);
  }
  const auto shape_of = [&](std::size_t i) {
    return tail_shape(task_.p(), task_.n(), lost[i].lost, task_.device.multiprocessors);
  };
  Indices order(lost.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return shape_of(a).width < shape_of(b).width;
  });
  for (std::size_t first = 0; first < order.size();) {
    const TailShape shape = shape_of(order[first]);
    std::size_t last = first + 1;
    while (last < order.size() && last - first < static_cast<std::size_t>(shape.slots) &&
           shape_of(order[last]) == shape) {
      ++last;
    }
    tail_group(situation, kept, *weights, shape, std::span(order).subspan(first, last - first),
               lost, found);
    first = last;
  }
  return found;
}

/// Those of `group` together, at most shape.slots.
void BatchSolver::tail_group(const StepContext& situation, const KeptReduction& kept,
                             const WeightPhase& weights, const TailShape& shape,
                             std::span<const std::size_t> group, std::span<const LostTail> lost,
                             std::vector<StepResult>& found) {
  std::vector<TailMember> members;
  for (const std::size_t i : group) {
    const std::int32_t exponent = exponents_[static_cast<std::size_t>(lost[i].position)];
    members.push_back({.position = lost[i].position,
                       .exponent = exponent,
                       .shift = shift_for(lost[i].before, exponent)});
  }
  lane_.ends->tail.start(handles(), kernels_, kept, shape, members);
  std::vector<bool> is_open(group.size(), true);
  for (int pass = 0; pass < kMaxPasses; ++pass) {
    throw_if_stopped(options_.stop);
    for (std::size_t m = 0; m < group.size(); ++m) {
      if (is_open[m]) {
        add_weights(lane_.ends->tail, static_cast<std::int64_t>(m), lost[group[m]].index,
                    std::nullopt, weights);
      }
    }
    lane_.ends->tail.finish(handles());
    for (std::size_t m = 0; m < group.size(); ++m) {
      if (is_open[m]) {
        const std::size_t i = group[m];
        is_open[m] =
            take_member(situation, shape, static_cast<std::int64_t>(m), pass, lost[i], found[i]);
      }
    }
    if (std::find(is_open.begin(), is_open.end(), true) == is_open.end()) {
      break;
    }
    if (pass + 1 < kMaxPasses) {
      lane_.ends->tail.correct(handles());
    }
  }
}

/// What the last pass says of one; true where another may help.
bool BatchSolver::take_member(const StepContext& situation, const TailShape& shape,
                              std::int64_t member, int pass, const LostTail& lost,
                              StepResult& found) const {
  found = lost.before;
  found.tail_errors.clear();
  if (!lane_.ends->tail.is_sound(member)) {
    return false;
  }
  std::vector<double> sigma;
  for (const double square : lane_.ends->tail.squares(member)) {
    sigma.push_back(std::sqrt(std::max(square, 0.0)));
  }
  const std::vector<double> square_errors =
      rounding_of(sigma, task_.p(), lost.before.sigma.front(), pass);
  if (!statistics::take_tail({.sigma = sigma,
                              .residuals = lane_.ends->tail.residuals(member),
                              .max_settled = settled_columns(shape, lost.lost),
                              .square_errors = square_errors},
                             lost.lost, lost.before, found)) {
    return true;
  }
  found.method = lost.before.method.substr(0, lost.before.method.rfind('+')) + "+band64+cuda";
  return !statistics::is_tail_enough(found.sigma, found.tail_errors, situation);
}

}  // namespace vindex::kernels
