// Owns the pass over the weights that fills a Gram matrix: which kernel multiplies them, and the
// exact diagonal put in afterwards.
#pragma once
#include "cpu/plan/svd_plan.hpp"
#include "cpu/tiles/cpu_tiles.hpp"
#include "cpu/workspace/workspace.hpp"

#include <cstdint>

namespace vindex::cpu {

class GroupSums;

/// Exponent that brings the largest weight near 1; 0 where a float32 Gram is safe as it is.
int gram_scale_exponent(double max_abs);

/// What a pass that forms a Gram matrix of float32 sums saw beside it (statistics::GramArithmetic,
/// statistics::GramNorms), in units of the weights as they were scaled.
struct FormedGram {
  std::int64_t depth = 0;  ///< of the long side, that were summed before the Gram was added to
  double line_norms_squared = 0.0;
  double diagonal_rounding = 0.0;
  double aligned_norm_squared = 0.0;
  double block_rounding = 0.0;
};

/// Fills the upper triangle of the float32 Gram; where the weights turn out to be too large or too
/// small for that, does the pass again with `change.scale_exponent` set. Leaves rubbish where a
/// weight is not finite. `groups`, of `gram`, where given, may take the sums over.
FormedGram form_gram(TileReader& reader, const SvdPlan& plan, TileChange& change,
                     Workspace& workspace, float* gram, double& seconds,
                     GroupSums* groups = nullptr);
/// The same in float64, which needs no scaling.
void form_gram(TileReader& reader, const SvdPlan& plan, TileChange& change, Workspace& workspace,
               double* gram, double& seconds);

}  // namespace vindex::cpu
