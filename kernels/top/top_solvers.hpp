// Owns what a back end asks for the top of a spectrum: `fast` values with certified bounds, and
// singular vectors. Both go the same way: search() in the Gram matrices, add() every slab of every
// matrix in a second pass over the weights, finish().
//
// Also owns the matrices of the certified bounds of `fast` mode on the device: batched Cholesky
// factorisations of the complement, and small eigenvalue problems. The proof stands in
// statistics/judgement/spectrum_bounds.hpp.
#pragma once

#include "top_subspace.hpp"
#include "weight_projection.hpp"

#include "backend/backend.hpp"
#include "statistics/judgement/spectrum_bounds.hpp"

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
  std::vector<SpectrumBounds> prove(const LibraryHandles& handles,
                                    const WeightProjection& projection,
                                    std::span<const BoundClaim> claims, std::uint64_t bytes);

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

/// A matrix and its Gram; zero matrices and such with weights that are not finite stay out.
struct FastMatrix {
  GramView gram;
  double gram_scale = 1.0;  ///< W^T W over the matrix in memory, a power of two
  double gram_error = 0.0;  ///< bound of |G - W^T W|_2, G in the scale of W^T W
  double sum_squares = 0.0;
};

struct FastValues {
  bool converged = false;
  std::vector<double> sigma;  ///< the largest 64, descending; empty where not converged
  SpectrumBounds bounds = statistics::unproved_bounds();
  std::int32_t rounds = 0;
};

/// Values of matrices of one shape, short side above statistics::kFullSpectrumSize. Not
/// thread-safe; keeps its device memory between batches.
class FastSolver {
 public:
  /// Waits for the stream. The Gram matrices must stay until finish().
  void search(const LibraryHandles& handles, std::span<const FastMatrix> matrices,
              std::int64_t short_side, std::int64_t long_side);
  void add(const LibraryHandles& handles, std::int64_t matrix, const WeightSlab& slab) {
    projection_.add(handles, matrix, slab);
  }
  /// `certify` false leaves the bounds out. `bytes`: see BoundProver. Waits for the stream.
  std::vector<FastValues> finish(const LibraryHandles& handles, bool certify, std::uint64_t bytes);

 private:
  SubspaceFinder finder_;
  WeightProjection projection_;
  BoundProver prover_;
  std::vector<FastMatrix> matrices_;
  std::vector<TopSubspace> found_;
};

/// Bytes of search() and finish() for `batch` matrices beside the Grams and `bytes` for proofs;
/// slabs of `slab_length` of `at_once` matrices are added.
std::uint64_t fast_solver_bytes(std::int64_t short_side, std::int64_t long_side, std::int64_t batch,
                                std::int64_t slab_length, std::int64_t at_once);

/// Bytes of a VectorSolver for `batch` matrices, by either way, beside the Grams.
std::uint64_t vector_solver_bytes(std::int64_t short_side, std::int64_t long_side,
                                  std::int64_t batch, std::int64_t columns);

/// Bound of |G - W^T W|_2 for a Gram matrix whose products of at most 22 significant bits are
/// summed by tensor cores in float32, `sum_depth` at a time, these sums added up in float32, and
/// weights are rounded to 22 bits: a unit of truncation per product (a step of 16 truncates 17
/// terms and its result below 2^-23 of the sum of magnitudes), one of rounding per chunk, and a few
/// of the operands. Source: arXiv 2511.10909 (alignment to the largest exponent, truncation).
double tensor_gram_error_bound(std::int64_t long_side, std::int64_t sum_depth, double sum_squares);
/// The same for a Gram matrix summed in float64 in any order and then rounded to float32.
double rounded_gram_error_bound(std::int64_t long_side, double sum_squares, double frobenius);

/// Top singular vectors of matrices of one shape.
class VectorSolver {
 public:
  /// `columns` (statistics::triplet_columns) by iteration on float32 Grams. Waits for the stream.
  void search(const LibraryHandles& handles, std::span<const GramView> grams,
              std::int64_t short_side, std::int64_t long_side, std::int64_t columns);
  /// By the dense solver: float64 Grams [batch][p][p], lower triangles, destroyed. Waits too.
  void solve(const LibraryHandles& handles, double* grams, std::int64_t batch,
             std::int64_t short_side, std::int64_t long_side, std::int64_t columns);
  void add(const LibraryHandles& handles, std::int64_t matrix, const WeightSlab& slab) {
    projection_.add(handles, matrix, slab);
  }
  void finish(const LibraryHandles& handles) { projection_.finish(handles); }
  /// After finish(): the `wanted` triplets of one matrix, `sum_squares` of its weights. Waits for
  /// the stream.
  /// Errors: DeviceError where the library's iteration failed.
  SingularVectors triplets(const LibraryHandles& handles, std::int64_t matrix, std::int32_t wanted,
                           bool short_is_right, double sum_squares);

 private:
  SubspaceFinder finder_;
  WeightProjection projection_;
  SmallEigen eigen_;
  DeviceBuffer values_{"eigenvalues"};
};

}  // namespace vindex::kernels
