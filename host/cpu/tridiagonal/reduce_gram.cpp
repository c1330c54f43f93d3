// Owns which reduction a Gram matrix takes (tridiagonal.hpp, simd_tridiagonal.hpp) and the sums
// over its passes.
#include "reduce_gram.hpp"

#include "tridiagonal.hpp"

#include "statistics/judgement/spectrum_error.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

namespace vindex::cpu {
namespace {

/// Sum over the passes of the reduction from column `first` on of ||what was left||_F^2, from the
/// band that it left (layout of reduce_to_band()), in its units: the part of the band behind a pass
/// is similar to what that pass left.
double passes_norm_squared_of(std::span<const double> band, std::int64_t n, std::int64_t first) {
  double sum = 0.0;
  double behind = 0.0;
  // From the end: `behind` then is the squared norm of what lies behind the pass at `start`.
  // Elements below the diagonal count twice, and those of a block of columns belong to the matrix
  // that the pass at that block met.
  for (std::int64_t start = band_order(n) - kBand; start >= first; start -= kBand) {
    for (std::int64_t j = start; j < start + kBand; ++j) {
      const double* const column = band.data() + j * kBandStride;
      behind += column[j] * column[j];
      for (std::int64_t i = j + 1; i < std::min(j + kBandStride, band_order(n)); ++i) {
        behind += 2.0 * column[i] * column[i];
      }
    }
    sum += behind;
  }
  return sum;
}

template <typename Real>
ReductionNorms reduce(const GramToReduce<Real>& gram, const SvdPlan& plan, const TileChange& change,
                      std::span<const std::int64_t> lines, double* d, double* e, ReducedGram* kept,
                      Workspace& workspace) {
  const std::int64_t order = gram.order;
  if (!is_reduced_by_band(order, plan.library_only)) {
    reduce_to_tridiagonal(gram.values, order, d, e, plan.library_only, workspace);
    return {.passes = statistics::passes_norm_squared(order, gram.norm_squared)};
  }
  constexpr bool kWide = sizeof(Real) == sizeof(double);
  const auto factor_of = [&](std::size_t element_bytes) {
    return WorkArray<std::byte>(
        workspace, static_cast<std::int64_t>(tridiagonalise_workspace_bytes(order, element_bytes)),
        "tridiagonal reduction");
  };
  ReducedGram reduced;
  reduced.change = change;
  reduced.wide_columns = kWide ? order : 0;
  reduced.band = WorkArray<double>(workspace, band_elements(order), "the band");
  reduced.factor = factor_of(sizeof(Real));
  reduced.form.band = reduced.band.span();
  const auto count = static_cast<std::size_t>(order);
  ReductionNorms norms;
  if (gram.rule != nullptr) {
    if constexpr (kWide) {
      reduced.rest_factor = factor_of(sizeof(float));
      NarrowRest rest{.norm_squared = gram.norm_squared,
                      .rule = gram.rule,
                      .room = reinterpret_cast<float*>(gram.values),
                      .workspace = reduced.rest_factor.span()};
      tridiagonalise_mixed(gram.values, order, order, {d, count}, {e, count}, reduced.factor.span(),
                           rest, &reduced.form, best_simd_level(), workspace.stop());
      reduced.wide_columns = rest.columns;
      norms.narrow_norm_squared = rest.left_norm_squared;
      norms.narrow_largest_diagonal = rest.largest_diagonal;
    }
  } else {
    tridiagonalise(gram.values, order, order, {d, count}, {e, count}, reduced.factor.span(),
                   &reduced.form, best_simd_level(), workspace.stop());
  }
  const auto passes_from = [&](std::int64_t first) {
    return std::ldexp(passes_norm_squared_of(reduced.form.band, order, first),
                      2 * reduced.form.exponent);
  };
  norms.passes = passes_from(0);
  if (reduced.wide_columns > 0 && reduced.wide_columns < order) {
    norms.narrow_passes = passes_from(reduced.wide_columns);
    norms.passes -= norms.narrow_passes;
  }
  if (kept != nullptr) {
    reduced.n = order;
    reduced.short_side = plan.short_side;
    reduced.lines.assign(lines.begin(), lines.end());
    *kept = std::move(reduced);
  }
  return norms;
}

}  // namespace

ReductionNorms reduce_gram(const GramToReduce<float>& gram, const SvdPlan& plan,
                           const TileChange& change, std::span<const std::int64_t> lines, double* d,
                           double* e, ReducedGram* kept, Workspace& workspace) {
  return reduce(gram, plan, change, lines, d, e, kept, workspace);
}

ReductionNorms reduce_gram(const GramToReduce<double>& gram, const SvdPlan& plan,
                           const TileChange& change, std::span<const std::int64_t> lines, double* d,
                           double* e, ReducedGram* kept, Workspace& workspace) {
  return reduce(gram, plan, change, lines, d, e, kept, workspace);
}

}  // namespace vindex::cpu
