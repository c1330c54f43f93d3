// Owns the steps by which the CPU finds all singular values of one matrix: Gram matrix in float32
// or float64 and its eigenvalues, or QR and a bidiagonal form. Findings lack the moments, which the
// reader has. Beside these: the `fast` mode, the largest 64 singular values with certified bounds
// for var_at_k and the stable rank; and the top-K singular vectors on request, a subspace on the
// Gram, then exact Ritz vectors, residuals and the other side from one more pass over the weights.
//
// Also owns the few smallest singular values that a Gram matrix has lost: eigenvectors of the band
// that its reduction left, turned back, and their singular values by float64 products with the
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
#include "statistics/judgement/judgement.hpp"

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

/// Roundings in an entry of the float64 Gram of by_gram64().
double gram64_terms(const SvdPlan& plan);

/// float32 Gram, its diagonal exact, and tridiagonal form, where the plan allows it in as much of
/// float64 as the spectrum needs (plan/precision.hpp). `sigma` is empty where a weight is not
/// finite; so are the others'. `kept`, where given, is set to what by_tail() wants, if the form was
/// reached through a band of the whole matrix. With `top_alone` the reduction ends once the largest
/// kFastValues values are known as well as `fast` promises, if they are before its end.
statistics::StepResult solve_by_gram32(TileReader& reader, const SvdPlan& plan,
                                       const TileChange& change, Workspace& workspace,
                                       MatrixReport& report, ReducedGram* kept = nullptr,
                                       bool top_alone = false);
/// float64 Gram and tridiagonal form.
statistics::StepResult by_gram64(TileReader& reader, const SvdPlan& plan, const TileChange& change,
                                 Workspace& workspace, MatrixReport& report,
                                 ReducedGram* kept = nullptr);
/// QR. `before`: what a Gram of float64 sums gave, or nothing where none was formed; of its values
/// the `lost` smallest are found again where that is cheaper, else (and for 0) all.
statistics::StepResult by_qr(TileReader& reader, const SvdPlan& plan, const TileChange& change,
                             statistics::StepResult before, std::int64_t lost, Workspace& workspace,
                             MatrixReport& report);

/// Bytes of the iteration, the projection and the certificate, the Gram matrix included.
std::uint64_t fast_bytes(const SvdPlan& plan);

/// The largest min(64, p) values by a filtered block iteration and bounds proved for them. Without
/// `certify` the bounds are left out. `sigma` is empty where a weight is not finite or all are 0.
statistics::StepResult by_chebyshev(TileReader& reader, const SvdPlan& plan,
                                    const TileChange& change, bool certify, Workspace& workspace,
                                    MatrixReport& report);

/// Bytes for `wanted` vectors.
std::uint64_t vectors_bytes(const SvdPlan& plan, std::int32_t wanted);

/// The `wanted` (at most p) largest singular triplets with s > 0:
/// statistics/spectrum/singular_triplets.hpp.
SingularVectors singular_vectors(TileReader& reader, const SvdPlan& plan, std::int32_t wanted,
                                 bool transposed, Workspace& workspace, MatrixReport& report);

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

/// Fills `report` (metrics contract: accuracy table and escalation). Errors: OutOfMemory beyond the
/// workspace, read errors of a streamed input.
void measure_on_cpu(MatrixInput& input, const SvdPlan& plan, const MeasureOptions& options,
                    Workspace& workspace, MatrixReport& report);

}  // namespace vindex::cpu
