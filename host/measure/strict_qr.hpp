// Owns the route whose error does not depend on the condition number: R of a QR decomposition by
// row blocks of the tall orientation (p x p plus one block in memory), bidiagonal form of R,
// singular values of that form; all float64.
#pragma once

#include "cpu_tiles.hpp"
#include "workspace.hpp"

#include <vindex/measure/svd_plan.hpp>

#include <vector>

namespace vindex::measure {

/// Singular values of the matrix behind `reader`, descending, min(rows, cols) of them; empty where
/// the bidiagonal iteration did not converge. `seconds_reduce` and `seconds_eigen` grow by the time
/// spent. Accuracy: |s_i - exact| <= c p eps64 s_1 with c of order 1 (backward stable throughout).
/// Source: LAPACK dtpqrt (Demmel, Grigori, Hoemmen, Langou 2012, "TSQR"), dgebrd, dbdsqr.
std::vector<double> singular_values_by_qr(TileReader& reader, const SvdPlan& plan,
                                          const TileChange& change, Workspace& workspace,
                                          double& seconds_reduce, double& seconds_eigen);

}  // namespace vindex::measure
