// Owns the few smallest singular values that a Gram matrix has lost: eigenvectors of the band that
// its reduction left, transformed back, and their singular values by float64 products with the
// weights. Costs a small share of the Gram where few are lost, as in square and in trained
// matrices.
//
// Why it is exact enough: a float32 Gram G + E has eigenvectors that lean towards the large ones by
// |E| / s_1^2 alone, so that W x is wrong by |E| / s_1 where G + E gives s^2 wrong by |E|. What is
// left is measured: r = W^T W x - s^2 x bounds the error of s^2 by |r|, and by |r|^2 over the
// distance to the next eigenvalue that x leaves out (Kato, Temple). Where that is not enough,
// x - (G + E)^-1 r is better by a factor |E| over that distance.
#pragma once

#include "backend/backend.hpp"
#include "cpu/plan/svd_plan.hpp"
#include "cpu/tiles/cpu_tiles.hpp"
#include "cpu/tridiagonal/reduced_gram.hpp"
#include "cpu/workspace/workspace.hpp"
#include "statistics/judgement/step_result.hpp"

#include <cstdint>

namespace vindex::cpu {

/// The most values that by_tail() is asked for.
std::int64_t max_tail_values(const SvdPlan& plan);

/// The finding of kTail: the `lost` smallest values of `before` again. `gram` is what the step of
/// `before` left; `situation` says when enough is enough. `tail_errors` stay empty where it does
/// not settle or contradicts `before`.
statistics::StepResult by_tail(TileReader& reader, const SvdPlan& plan, ReducedGram& gram,
                               statistics::StepResult before, std::int64_t lost,
                               const statistics::StepContext& situation, Workspace& workspace,
                               MatrixReport& report);

/// Bytes that it takes beside the ReducedGram.
std::uint64_t tail_workspace_bytes(const SvdPlan& plan);

}  // namespace vindex::cpu
