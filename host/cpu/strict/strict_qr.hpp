// Owns the route whose error does not depend on the condition number: R of a QR decomposition by
// row blocks of the tall orientation (p x p plus one block in memory), bidiagonal form of R,
// singular values of that form; all float64.
#pragma once

#include "cpu_tiles.hpp"
#include "plan/svd_plan.hpp"
#include "workspace.hpp"

#include <vector>

namespace vindex::cpu {

/// R (p x p upper triangle, column-major, zero below) with R^T R = W^T W over the short side, to
/// backward error of order eps64. `seconds` grows by the time spent. Leaves rubbish where a weight
/// is not finite. Source: LAPACK dtpqrt (Demmel, Grigori, Hoemmen, Langou 2012, "TSQR").
void triangular_factor(TileReader& reader, const SvdPlan& plan, const TileChange& change,
                       Workspace& workspace, double* r, double& seconds);

/// Singular values, descending, of the p x p column-major matrix `a` (destroyed); empty where the
/// iteration did not converge. Accuracy: |s_i - exact| <= c p eps64 s_1 with c of order 1 (backward
/// stable). Source: LAPACK dgebrd, dbdsqr (without vectors: dqds).
std::vector<double> singular_values_by_bidiagonal(double* a, std::int64_t p, Workspace& workspace);

/// Bytes that either takes beside its matrix.
std::uint64_t qr_bytes(const SvdPlan& plan);

}  // namespace vindex::cpu
