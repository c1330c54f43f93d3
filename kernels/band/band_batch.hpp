// Owns the plan of a reduction to band form, and the batch that is reduced.
#pragma once

#include "band_layout.hpp"

#include <cstddef>
#include <cstdint>

namespace vindex::kernels {

/// How A is updated and multiplied.
enum class BandRoute {
  kPlain,   ///< lower triangle in one pass, multiply-add of the CUDA cores
  kTensor,  ///< the same on the tensor cores (BandArithmetic::kTensor)
};

/// What a reduction of matrices of one order needs; a pure function of its arguments.
struct BandPlan {
  std::int64_t order = 0;       ///< of the padded matrices
  std::int64_t strip_rows = 0;  ///< rows per block of threads of the pass over the triangle
  BandRoute route = BandRoute::kPlain;
  int deferred_panels = 0;  ///< updated at once (deferred_band.hpp); 0: reduce_to_band() is used
  std::size_t shared_bytes = 0;  ///< where updates are deferred: what a block may ask for
  std::size_t workspace_bytes_per_matrix = 0;
};

/// Who multiplies a matrix by the power of two that makes its largest diagonal entry lie in
/// [1/2, 1).
enum class MatrixScale : std::uint8_t {
  kWanted,   ///< the reduction finds the exponents and applies them
  kFound,    ///< the exponents are there (find_exponents()), and are to be applied
  kApplied,  ///< the exponents are there and the matrices have been multiplied
};

/// A batch on the device. All arrays are the caller's.
template <typename Real>
struct BandBatch {
  /// Batch x order x order, symmetric positive semidefinite up to rounding, both triangles valid,
  /// zero beyond the true order; destroyed.
  Real* matrices;
  std::int64_t batch;  ///< at most 65535
  Real* band;          ///< gets batch x band_elements(order), layout of band_layout.hpp
  /// One per matrix, which is found where `scale` says so: eigenvalues are 2^exponent times the
  /// band's.
  std::int32_t* exponents;
  void* workspace;           ///< batch x workspace_bytes_per_matrix, aligned to 256 bytes
  bool keep_factor = false;  ///< leave Q in `matrices`, as band_back_transform.hpp has it
  MatrixScale scale = MatrixScale::kWanted;
};

}  // namespace vindex::kernels
