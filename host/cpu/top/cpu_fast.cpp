// Owns the order of `fast`'s proved route: float32 Gram, block iteration on it (chebyshev.hpp), one
// pass over the weights in float64 for Ritz values on the subspace (projection.hpp), bounds
// (projection.hpp). The values come from that pass and not from the Gram, so that its rounding
// only decides how good the subspace is, and enters the bounds as |G - W^T W|.
#include "cpu_fast.hpp"

#include "certificate.hpp"
#include "chebyshev.hpp"
#include "projection.hpp"

#include "backend/backend.hpp"
#include "cpu/gram/form_gram.hpp"
#include "cpu/gram/gram.hpp"
#include "cpu/workspace/stopwatch.hpp"
#include "statistics/judgement/spectrum_bounds.hpp"
#include "statistics/judgement/step_result.hpp"

#include <algorithm>
#include <cmath>

namespace vindex::cpu {

std::uint64_t fast_bytes(const SvdPlan& plan) {
  const std::int64_t p = plan.short_side;
  if (p <= statistics::kFullSpectrumSize) {
    return 0;
  }
  return array_bytes(p * p, sizeof(float)) +
         array_bytes(p * statistics::kBlockWidth, sizeof(float)) +
         std::max(top_subspace_bytes(p, statistics::kBlockWidth),
                  projection_bytes(plan, statistics::kProvedVectors, false) +
                      certificate_bytes(p, statistics::kProvedVectors));
}

statistics::StepResult by_chebyshev(TileReader& reader, const SvdPlan& plan,
                                    const TileChange& first_change, bool certify,
                                    Workspace& workspace, MatrixReport& report) {
  const std::int64_t p = plan.short_side;
  TileChange change = first_change;
  statistics::StepResult fast;
  fast.method = "gram32+chebyshev+cpu";
  WorkArray<float> gram(workspace, p * p, "the Gram matrix");
  form_gram(reader, plan, change, workspace, gram.data(), report.seconds_gram);
  if (!reader.finite() || reader.moments().max_abs() == 0.0) {
    return fast;
  }
  fast.gram_norm_squared =
      std::ldexp(symmetric_norm_squared(gram.data(), p), -4 * change.scale_exponent);
  const double sum_squares = std::ldexp(reader.moments().sum_squares, 2 * change.scale_exponent);
  const double gram_error = gram32_error_bound(plan.long_side, plan.chunk, sum_squares);

  TopSubspace top;
  {
    const Stopwatch watch(report.seconds_eigen);
    const auto enough = [&](std::span<const double> values, std::span<const double> residuals) {
      return statistics::is_enough_for_bounds(values, residuals, gram_error, sum_squares);
    };
    top = top_subspace(gram.data(), p, statistics::kBlockWidth, enough, workspace);
  }
  const Projection projection = project(
      reader, plan, change, widened(top.basis.data(), p, statistics::kProvedVectors, workspace),
      statistics::kProvedVectors, false, workspace, report.seconds_eigen);
  for (std::int64_t i = 0; i < statistics::kFastValues; ++i) {
    const double value = std::max(projection.values[static_cast<std::size_t>(i)], 0.0);
    fast.sigma.push_back(std::ldexp(std::sqrt(value), -change.scale_exponent));
  }
  if (certify) {
    const Stopwatch watch(report.seconds_eigen);
    const double next =
        top.values[statistics::kProvedVectors] + top.residuals[statistics::kProvedVectors];
    fast.bounds = prove_bounds(gram.data(), projection, next, gram_error, sum_squares,
                               plan.long_side, workspace);
  }
  return fast;
}

}  // namespace vindex::cpu
