// Owns the two ways from the weights W to all their singular values, p the short side and n the
// long one:
//
//   by_gram   G = W^T W,  T = Q^T G Q tridiagonal,  s_i = sqrt(l_i(T))      n p^2 + 4/3 p^3 flop
//   by_qr     W = Q R,  B = U^T R V bidiagonal,     s_i = s_i(B)          2 n p^2 + 2 p^3
//
// Why a Gram first: it is one product of matrices that takes slabs in any order and keeps p^2
// numbers, at about half of the arithmetic of QR. LAPACK's gesvd, which bidiagonalises W itself,
// takes 4 n p^2 - 4/3 p^3 and spends half of that on products with vectors, bound by memory. The
// price of a Gram is known: rounding E of G moves s_i^2 by at most |E| (Weyl), so s_i by |E| / (2
// s_i), which is half of eps (s_1 / s_i)^2 relative to it. What that leaves of each value is
// modelled in statistics/judgement/spectrum_error.hpp from the norms that by_gram() collects, and
// statistics/judgement/judgement.hpp says where it is too little and which step follows. by_qr()
// (strict/qr_route.cpp) never squares, so its error is eps64 s_1 for any condition.
//
// Sources: LAPACK syrk, sytrd, sterf, tpqrt, gebrd, bdsqr; QR before the bidiagonal form is Chan,
// "An improved algorithm for computing the singular value decomposition" (1982).
#include "gram_route.hpp"

#include "backend/backend.hpp"
#include "core/integers.hpp"
#include "cpu/gram/form_gram.hpp"
#include "cpu/gram/gram.hpp"
#include "cpu/gram/group_sums.hpp"
#include "cpu/plan/precision.hpp"
#include "cpu/top/partial_band.hpp"
#include "cpu/tridiagonal/reduce_gram.hpp"
#include "cpu/tridiagonal/tridiagonal.hpp"
#include "cpu/workspace/stopwatch.hpp"
#include "statistics/judgement/spectrum_bounds.hpp"
#include "statistics/judgement/step_result.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace vindex::cpu {
namespace {

/// A Gram matrix that is 2^exponent times that of the weights.
struct GramScale {
  double sum_squares = 0.0;        ///< of the weights
  double gram_norm_squared = 0.0;  ///< of the matrix as it is
  int exponent = 0;
};

/// Tridiagonal form as reduce_gram() makes it, from a reduction that ends once it has the largest
/// values as `fast` promises them: `found` then gets those, their bounds and errors.
template <typename RoundingOf>
double reduce_in_part(float* gram, std::int64_t order, const GramScale& scaled,
                      const RoundingOf& rounding_of, double* d, double* e, Workspace& workspace,
                      statistics::StepResult& found) {
  const auto in_units_of_weights = [&](std::span<const double> squares) {
    std::vector<double> out(squares.begin(), squares.end());
    for (double& square : out) {
      square = std::ldexp(square, -scaled.exponent);
    }
    return out;
  };
  const auto errors_of = [&](double passes, std::span<const double> largest) {
    statistics::Rounding rounding = rounding_of(passes);
    statistics::SquareErrors errors = {
        .once = std::ldexp(statistics::lone_error(rounding), scaled.exponent)};
    rounding.lone = 0.0;
    errors.each = statistics::largest_errors(in_units_of_weights(largest), order, rounding);
    for (double& error : errors.each) {
      error = std::ldexp(error, scaled.exponent);
    }
    return errors;
  };
  TopProbe probe({.order = order,
                  .sum_squares = std::ldexp(scaled.sum_squares, scaled.exponent),
                  .norm_squared = scaled.gram_norm_squared,
                  .room = gram,
                  .errors = errors_of},
                 workspace);
  WorkArray<std::byte> work(
      workspace, static_cast<std::int64_t>(tridiagonalise_workspace_bytes(order, sizeof(float))),
      "tridiagonal reduction");
  const auto count = static_cast<std::size_t>(order);
  const std::int64_t columns =
      tridiagonalise_in_part(gram, order, order, {d, count}, {e, count}, work.span(), probe,
                             best_simd_level(), workspace.stop());
  if (columns == order) {
    return probe.passes_norm_squared();
  }
  const std::vector<double> lower = in_units_of_weights(probe.lower());
  const std::vector<double> upper = in_units_of_weights(probe.upper());
  const statistics::SquareErrors errors = {
      .each = in_units_of_weights(probe.errors().each),
      .once = std::ldexp(probe.errors().once, -scaled.exponent)};
  for (std::size_t i = 0; i < lower.size(); ++i) {
    found.sigma.push_back(std::sqrt(0.5 * (lower[i] + upper[i])));
    found.top_errors.push_back(0.5 * (upper[i] - lower[i]) + errors.each[i] + errors.once);
  }
  found.bounds = statistics::bounds_between(lower, upper, errors, scaled.sum_squares);
  found.reduced_trace = std::ldexp(probe.trace(), -scaled.exponent);
  found.reduced_norm_squared = std::ldexp(probe.norm_squared(), -2 * scaled.exponent);
  return probe.passes_norm_squared();
}

/// Rms errors of entries: what sums have rounded, and what they and a reduction may.
class RoundingBudget final : public NarrowRule {
 public:
  RoundingBudget(std::int64_t order, double sums, double allowed)
      : order_(order), sums_(sums), allowed_(allowed) {}

  bool allows(double norm_squared, std::int64_t left) const override {
    const double passes = statistics::passes_norm_squared(left, norm_squared);
    const double narrow = statistics::gram_rounding({.unit = 0.0, .reduction_unit = 0.0}, order_,
                                                    order_, {.narrow_passes_norm_squared = passes})
                              .entry;
    return std::hypot(sums_, narrow) <= allowed_;
  }

 private:
  std::int64_t order_;
  double sums_, allowed_;
};

/// One matrix on its way from a Gram matrix to its values.
class GramStep {
 public:
  GramStep(TileReader& reader, const SvdPlan& plan, const TileChange& change, Workspace& workspace,
           MatrixReport& report, ReducedGram* kept)
      : reader_(reader),
        plan_(plan),
        change_(change),
        workspace_(workspace),
        report_(report),
        kept_(kept) {}

  /// float32 products, and sums where those are enough. With `top_alone` nothing but the largest
  /// values matters.
  statistics::StepResult narrow(bool top_alone) {
    const std::int64_t p = plan_.short_side;
    WorkArray<float> gram(workspace_, p * p, "the Gram matrix");
    std::optional<GroupSums> groups;
    if (plan_.may_group_sums && !top_alone && !change_.sign_flip_draw) {
      groups.emplace(plan_, gram.data(), workspace_);
    }
    sums_seen_ = form_gram(reader_, plan_, change_, workspace_, gram.data(), report_.seconds_gram,
                           groups ? &*groups : nullptr);
    arithmetic_ = {.unit = kNarrow, .depth = sums_seen_.depth, .reduction_unit = kNarrow};
    if (!reader_.finite()) {
      return nothing();
    }
    if (!groups || groups->kind() == GramSums::kNarrow) {
      return values_of(gram, top_alone);
    }
    gram.reset();
    if (groups->kind() == GramSums::kWide) {
      statistics::StepResult found = wide(true);
      found.has_float64_sums = true;
      return found;
    }
    arithmetic_.group = groups->like_groups();
    arithmetic_.reduction_unit = kWide;
    sums_ = "gram32";
    return values_of(groups->matrix(), true);
  }

  /// float64 throughout, or products and sums alone.
  statistics::StepResult wide(bool may_reduce_narrow) {
    WorkArray<double> gram(workspace_, plan_.short_side * plan_.short_side, "the Gram matrix");
    form_gram(reader_, plan_, change_, workspace_, gram.data(), report_.seconds_gram);
    sums_seen_ = {};
    arithmetic_ = {.unit = kWide, .depth = plan_.chunk, .reduction_unit = kWide};
    sums_ = "gram64";
    return reader_.finite() ? values_of(gram, may_reduce_narrow) : nothing();
  }

 private:
  static constexpr double kNarrow = 0x1p-24;
  static constexpr double kWide = 0x1p-53;

  std::string method(std::int64_t order) const {
    const bool band = is_reduced_by_band(order, plan_.library_only);
    return std::string(sums_) + (band ? "+band" : "+trd") +
           (arithmetic_.reduction_unit == kNarrow ? "32+cpu" : "64+cpu");
  }

  /// Of weights that are not finite.
  statistics::StepResult nothing() const {
    statistics::StepResult found;
    found.method = method(plan_.short_side);
    return found;
  }

  /// The rounding of a reduction, in units of the weights.
  statistics::Rounding rounding(const ReductionNorms& norms, std::int64_t order) const {
    // One-stage reductions (sytrd) err several times as much, most on a cluster at the top; one
    // value is not reduced.
    statistics::GramArithmetic arithmetic = arithmetic_;
    if (order > 1 && !is_reduced_by_band(order, plan_.library_only)) {
      arithmetic.reduction_unit *= 8.0;
    }
    const auto squared = [&](double value) { return std::ldexp(value, -4 * scale()); };
    return statistics::gram_rounding(
        arithmetic, order, plan_.long_side,
        {.sum_squares = reader_.moments().sum_squares,
         .gram_norm_squared = found_.gram_norm_squared,
         .diagonal_norm_squared = squared(diagonal_.norm_squared),
         .largest_diagonal = std::ldexp(diagonal_.largest, -2 * scale()),
         .line_norms_squared = squared(sums_seen_.line_norms_squared),
         .diagonal_rounding = sums_seen_.diagonal_rounding,
         .aligned_norm_squared = squared(sums_seen_.aligned_norm_squared),
         .block_rounding = std::ldexp(sums_seen_.block_rounding, -2 * scale()),
         .additive_norm_squared = squared(additive_norm_squared_),
         .passes_norm_squared = squared(norms.passes),
         .narrow_passes_norm_squared = squared(norms.narrow_passes),
         .narrow_norm_squared = squared(norms.narrow_norm_squared),
         .narrow_largest_diagonal = std::ldexp(norms.narrow_largest_diagonal, -2 * scale())});
  }

  int scale() const { return change_.scale_exponent; }

  /// `may_choose`: of a float32 Gram, to end early; of another, to reduce it in float32.
  template <typename Real>
  statistics::StepResult values_of(WorkArray<Real>& gram, bool may_choose) {
    const Stopwatch watch(report_.seconds_eigen);
    const std::int64_t p = plan_.short_side;
    found_.method = method(p);
    const double norm_squared = symmetric_norm_squared(gram.data(), p);
    found_.gram_norm_squared = std::ldexp(norm_squared, -4 * scale());
    // The norms are read before the reduction destroys G.
    diagonal_ = diagonal_norms(gram.data(), p);
    additive_norm_squared_ = std::min(additive_norm_squared(gram.data(), p), norm_squared);
    lines_ = nonzero_lines(gram.data(), p);
    const auto left = static_cast<std::int64_t>(lines_.size());
    keep_lines(gram.data(), p, lines_);
    if (left == 0) {
      found_.sigma.assign(static_cast<std::size_t>(p), 0.0);
      found_.zero_rows = p;
      return found_;
    }
    WorkArray<double> d(workspace_, left, "eigenvalues");
    WorkArray<double> e(workspace_, left, "tridiagonal form");
    ReductionNorms norms;
    if constexpr (sizeof(Real) == sizeof(float)) {
      if (may_choose && is_reduced_by_band(left, plan_.library_only) && may_end_early(left)) {
        norms.passes = reduce_in_part(
            gram.data(), left,
            {.sum_squares = reader_.moments().sum_squares,
             .gram_norm_squared = norm_squared,
             .exponent = 2 * scale()},
            [&](double passes) { return rounding({.passes = passes}, left); }, d.data(), e.data(),
            workspace_, found_);
      } else {
        norms = reduce<float>({gram.data(), left, norm_squared}, d, e);
      }
    } else {
      norms = may_choose && is_reduced_by_band(left, plan_.library_only)
                  ? reduce_as_needed({gram.data(), left, norm_squared}, d, e)
                  : reduce<double>({gram.data(), left, norm_squared}, d, e);
    }
    found_.rounding = rounding(norms, left);
    if (!found_.top_errors.empty()) {
      found_.method = "gram32+lanczos32+cpu";
      return found_;
    }
    found_.method = method(left);
    const bool converged =
        solve_tridiagonal(d.data(), e.data(), left, plan_.library_only, workspace_);
    statistics::take_eigenvalues({.eigenvalues = {d.data(), static_cast<std::size_t>(left)},
                                  .exponent = -2 * scale(),
                                  .left_out = p - left,
                                  .failed = !converged},
                                 found_);
    return found_;
  }

  template <typename Real>
  ReductionNorms reduce(const GramToReduce<Real>& gram, WorkArray<double>& d,
                        WorkArray<double>& e) {
    return reduce_gram(gram, plan_, change_, lines_, d.data(), e.data(), kept_, workspace_);
  }

  /// In float32, or in float64 until what is left may go on in float32.
  ReductionNorms reduce_as_needed(GramToReduce<double> gram, WorkArray<double>& d,
                                  WorkArray<double>& e) {
    const std::int64_t order = gram.order;
    const double own = std::ldexp(rounding({}, order).entry, 2 * scale());
    // Beside the rounding of the sums, so much more is not worth avoiding; a few passes more in
    // float64 are, by as much as an outline may be wrong.
    constexpr double kBesideSums = 1.1;
    constexpr double kReserve = 0.35;
    const SpectrumOutline outline = outline_of(gram.values, order,
                                               {.summed = plan_.long_side,
                                                .all = plan_.long_side,
                                                .trace = diagonal_.trace,
                                                .norm_squared = gram.norm_squared},
                                               workspace_);
    const double of_distance = arithmetic_.unit == kWide ? kOfDistanceAtLittleCost : kOfDistance;
    const double allowed =
        std::max(kReserve * allowed_rounding(outline, order, plan_.long_side, of_distance),
                 kBesideSums * own);
    const RoundingBudget budget(order, own, allowed);
    if (!budget.allows(gram.norm_squared, order)) {
      gram.rule = &budget;
      return reduce(gram, d, e);
    }
    WorkArray<float> narrow(workspace_, order * order, "the Gram matrix");
    for (std::int64_t j = 0; j < order; ++j) {
      std::copy_n(gram.values + j * order, j + 1, narrow.data() + j * order);
    }
    arithmetic_.reduction_unit = kNarrow;
    return reduce<float>({narrow.data(), order, gram.norm_squared}, d, e);
  }

  TileReader& reader_;
  const SvdPlan& plan_;
  TileChange change_;
  Workspace& workspace_;
  MatrixReport& report_;
  ReducedGram* kept_;
  statistics::GramArithmetic arithmetic_;
  const char* sums_ = "gram32";
  DiagonalNorms diagonal_;
  double additive_norm_squared_ = 0.0;
  FormedGram sums_seen_;
  std::vector<std::int64_t> lines_;  ///< of the short side, that are not zero
  statistics::StepResult found_;
};

}  // namespace

double gram64_terms(const SvdPlan& plan) {
  const std::int64_t chunks = ceil_divide(plan.long_side, plan.chunk);
  return static_cast<double>(plan.chunk + chunks + 8);
}

statistics::StepResult solve_by_gram32(TileReader& reader, const SvdPlan& plan,
                                       const TileChange& change, Workspace& workspace,
                                       MatrixReport& report, ReducedGram* kept, bool top_alone) {
  return GramStep(reader, plan, change, workspace, report, kept).narrow(top_alone);
}

statistics::StepResult by_gram64(TileReader& reader, const SvdPlan& plan, const TileChange& change,
                                 Workspace& workspace, MatrixReport& report, ReducedGram* kept) {
  return GramStep(reader, plan, change, workspace, report, kept).wide(false);
}

}  // namespace vindex::cpu
