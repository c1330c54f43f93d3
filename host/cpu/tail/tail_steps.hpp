// Owns the steps of kTail. On the band: a symmetric positive definite band's Cholesky factor by
// blocks of kBand, products and solves with many columns, and the eigenvectors of a band's smallest
// eigenvalues. On the weights, in float64: one pass gives the singular values of W on a given
// subspace, and how far its directions are from singular vectors of W. Unlike top/projection.hpp it
// never squares a value: the smallest come out to rounding of the largest in the subspace.
#pragma once

#include "cpu/band/simd_band_reduction.hpp"
#include "cpu/plan/svd_plan.hpp"
#include "cpu/tiles/cpu_tiles.hpp"
#include "cpu/workspace/workspace.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace vindex::cpu {

/// B + shift I for the band B of reduce_to_band(), of order band_order(n); rows and columns beyond
/// n are made those of a large multiple of the identity, so that no small eigenvalue is theirs.
/// Blocks of columns are column-major with leading dimension order().
class BandInverse {
 public:
  BandInverse(std::span<const double> band, std::int64_t n, Workspace& workspace);

  /// False where B + shift I is not positive definite; then solve() may not be called.
  bool factor(double shift);
  /// columns = (B + shift I)^-1 columns.
  void solve(double* columns, std::int64_t count);
  /// out = B columns.
  void multiply(const double* columns, std::int64_t count, double* out) const;

  std::int64_t order() const { return order_; }
  static std::uint64_t bytes(std::int64_t n);

 private:
  double* diagonal(std::int64_t block) { return factor_.data() + 2 * block * kBand * kBand; }
  double* below(std::int64_t block) { return diagonal(block) + kBand * kBand; }

  std::int64_t order_;
  WorkArray<double> matrix_;  ///< per block: the diagonal block, whole, and the one below it
  WorkArray<double> factor_;  ///< the same of the Cholesky factor
};

/// Orthonormal columns (order x width, column-major, ascending by Ritz value) whose first `count`
/// approach the eigenvectors of the `count` smallest eigenvalues of the band until
/// ||B x - t x|| <= `enough` for each; `width` is what `columns` has room for. `inverse` is
/// factored with a shift below which all those eigenvalues are far from the rest or as good as
/// equal. False where it does not settle. Deterministic: the start is a fixed pseudo-random block.
/// Source: block Krylov spaces of the inverse with restarts (Golub and Van Loan, Matrix
/// Computations, 10.3; Knyazev 2001 for the block restart).
bool smallest_pairs(BandInverse& inverse, std::int64_t count, double enough,
                    WorkArray<double>& columns, Workspace& workspace);

/// Bytes that it takes beside `columns`.
std::uint64_t smallest_pairs_bytes(std::int64_t count, std::int64_t order);

/// All arrays column-major; columns belong to `sigma`, descending.
struct TailValues {
  std::vector<double> sigma;   ///< singular values of W V
  WorkArray<double> basis;     ///< V, p x count, orthonormal
  WorkArray<double> residual;  ///< p x count: W^T W v - sigma^2 v
};

/// `start`: p x count, column-major (orthonormalised here). `seconds` grows by the time spent in
/// products. sigma is empty where the iteration for them fails. Source: QR by row blocks (Demmel,
/// Grigori, Hoemmen, Langou 2012), LAPACK dgeqrf, dgesvd.
TailValues tail_values(TileReader& reader, const SvdPlan& plan, const TileChange& change,
                       WorkArray<double> start, std::int64_t count, Workspace& workspace,
                       double& seconds);

/// Bytes that it takes, its result included.
std::uint64_t tail_values_bytes(const SvdPlan& plan, std::int64_t count);

}  // namespace vindex::cpu
