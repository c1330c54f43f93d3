// Owns a symmetric positive definite band's Cholesky factor by blocks of kBand, and products and
// solves with many columns.
#pragma once

#include "cpu/band/band_storage.hpp"
#include "cpu/workspace/workspace.hpp"

#include <cstdint>
#include <span>

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

}  // namespace vindex::cpu
