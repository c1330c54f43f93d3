// Owns the route whose error does not depend on the condition number: R of a QR decomposition by
// row blocks of the tall orientation (p x p plus one block in memory), bidiagonal form of R,
// singular values of that form; all float64.
//
// Also owns the few smallest singular values of a triangular factor R, where a float64 Gram has
// lost them: inverse subspace iteration, then the singular values of R restricted to that subspace.
// Costs triangular solves in place of a bidiagonalisation of the whole (half of which is bound by
// memory), so that a square matrix with a handful of tiny values stays cheap.
#pragma once
#include "cpu/plan/svd_plan.hpp"
#include "cpu/tiles/cpu_tiles.hpp"
#include "cpu/workspace/workspace.hpp"

#include <cstdint>
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

/// The most values this is asked for.
constexpr std::int64_t max_tail_values(std::int64_t p) { return p / 16 < 96 ? p / 16 : 96; }

/// Bytes that smallest_singular_values() takes at most.
std::uint64_t tail_bytes(std::int64_t p);

/// The `count` smallest singular values of the upper triangle `r` (p x p, column-major; its
/// diagonal is changed and restored), descending. Empty where the iteration does not settle; then
/// take another route. `largest` is s_1. Accuracy: each lies within p eps64 s_1 of a singular value
/// of R (residual of the pair, Weyl). Source: Golub and Van Loan, Matrix Computations, 8.2.4
/// and 8.6 (orthogonal iteration, Ritz).
std::vector<double> smallest_singular_values(double* r, std::int64_t p, std::int64_t count,
                                             double largest, Workspace& workspace);

}  // namespace vindex::cpu
