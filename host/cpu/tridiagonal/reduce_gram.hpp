// Owns the step from a Gram matrix to its tridiagonal form, and what is known of its rounding.
#pragma once

#include "reduced_gram.hpp"

#include "cpu/plan/svd_plan.hpp"
#include "cpu/tridiagonal/simd_tridiagonal.hpp"
#include "cpu/workspace/workspace.hpp"

#include <cstdint>
#include <span>

namespace vindex::cpu {

/// What a reduction to tridiagonal form rounds, in units of the matrix (statistics::GramNorms).
struct ReductionNorms {
  double passes = 0.0;
  double narrow_passes = 0.0;  ///< of those in float32 that followed others in float64
  double narrow_norm_squared = 0.0;
  double narrow_largest_diagonal = 0.0;
};

/// The matrix that is reduced.
template <typename Real>
struct GramToReduce {
  Real* values = nullptr;  ///< upper triangle, column-major; destroyed
  std::int64_t order = 0;
  double norm_squared = 0.0;
  const NarrowRule* rule = nullptr;  ///< of a float64 matrix; null: float64 to the end
};

/// Tridiagonal form in d and e (n numbers each). `lines`: of the short side, those of the matrix.
/// `kept`, where given, gets what by_tail() wants, if the form is reached through a band.
/// Errors: OutOfMemory; Stopped.
ReductionNorms reduce_gram(const GramToReduce<float>& gram, const SvdPlan& plan,
                           const TileChange& change, std::span<const std::int64_t> lines, double* d,
                           double* e, ReducedGram* kept, Workspace& workspace);
ReductionNorms reduce_gram(const GramToReduce<double>& gram, const SvdPlan& plan,
                           const TileChange& change, std::span<const std::int64_t> lines, double* d,
                           double* e, ReducedGram* kept, Workspace& workspace);

}  // namespace vindex::cpu
