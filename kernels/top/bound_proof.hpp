// Owns the matrices of the certified bounds of `fast` mode on the device: batched Cholesky
// factorisations of the complement, and small eigenvalue problems. The proof stands in
// measure/spectrum_bounds.hpp.
#pragma once

#include "top/top_subspace.hpp"
#include "top/weight_projection.hpp"

#include <vindex/measure/spectrum_bounds.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace vindex::kernels {

/// What is claimed of one matrix of a projection. Values in the scale of the weights.
struct BoundClaim {
  std::int64_t matrix = 0;  ///< of the projection
  GramView gram;
  double gram_scale = 1.0;  ///< weights' scale over that of the matrix in memory, a power of two
  double next_value = 0.0;  ///< estimate of the largest eigenvalue beyond the projection
  double gram_error = 0.0;  ///< bound of |G - W^T W|_2
  double sum_squares = 0.0;
};

/// Keeps its device memory between calls.
class BoundProver {
 public:
  /// Bounds for every claim; unproved_bounds() where none could be proved. At most `bytes` of
  /// device memory for the matrices to be factored, one at a time where that is less than one.
  /// Waits for the stream. Bits depend on the matrix and on what the libraries do with the size of
  /// a batch; the bounds hold whatever they are.
  std::vector<measure::SpectrumBounds> prove(const LibraryHandles& handles,
                                             const WeightProjection& projection,
                                             std::span<const BoundClaim> claims,
                                             std::uint64_t bytes);

 private:
  std::vector<bool> are_definite(const LibraryHandles& handles, const WeightProjection& projection,
                                 std::span<const BoundClaim> claims, std::span<const double> taus,
                                 std::uint64_t bytes);
  void upper_sums(const LibraryHandles& handles, const WeightProjection& projection,
                  std::span<const BoundClaim> claims, std::span<const double> gaps,
                  std::vector<double>& sums);

  DeviceBuffer matrices_{"matrices to be factored"};
  DeviceBuffer scaled_{"scaled vectors"};
  DeviceBuffer small_{"matrices of the bounds"};
  DeviceBuffer parameters_{"parameters of the bounds"};
  SmallEigen eigen_;
};

}  // namespace vindex::kernels
