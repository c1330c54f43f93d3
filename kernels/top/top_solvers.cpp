// Owns the order of work for `fast` values and for singular vectors of a batch: subspaces of the
// Gram matrices, every slab of the weights once more, then proofs or triplets. Two passes over the
// weights and no more: what is certain comes from the second, and the Gram only says where to look.
#include "top_solvers.hpp"

#include "statistics/spectrum/singular_triplets.hpp"

#include <algorithm>
#include <cmath>

namespace vindex::kernels {

namespace {

using statistics::kBlockWidth;
using statistics::kFastValues;
using statistics::kProvedVectors;

std::vector<double> on_host(const LibraryHandles& handles, const double* values,
                            std::int64_t count) {
  std::vector<double> out(static_cast<std::size_t>(count));
  check(cudaMemcpyAsync(out.data(), values, out.size() * sizeof(double), cudaMemcpyDeviceToHost,
                        handles.stream));
  check(cudaStreamSynchronize(handles.stream));
  return out;
}

}  // namespace

void FastSolver::search(const LibraryHandles& handles, std::span<const FastMatrix> matrices,
                        std::int64_t short_side, std::int64_t long_side) {
  expects(short_side > statistics::kFullSpectrumSize, "search: a matrix that iteration pays for");
  matrices_.assign(matrices.begin(), matrices.end());
  std::vector<GramView> grams;
  for (const FastMatrix& matrix : matrices) {
    grams.push_back(matrix.gram);
  }
  found_ = finder_.find(
      handles, grams, short_side, kBlockWidth,
      [&](std::size_t index, std::span<const double> values, std::span<const double> residuals) {
        const FastMatrix& own = matrices_[index];
        return statistics::is_enough_for_bounds(values, residuals, own.gram_error / own.gram_scale,
                                                own.sum_squares / own.gram_scale);
      });
  std::vector<const float*> bases;
  for (const TopSubspace& one : found_) {
    bases.push_back(one.basis);
  }
  projection_.start(handles,
                    {.short_side = short_side,
                     .long_side = long_side,
                     .count = kProvedVectors,
                     .batch = static_cast<std::int64_t>(matrices.size()),
                     .with_image = false},
                    bases);
}

std::vector<FastValues> FastSolver::finish(const LibraryHandles& handles, bool certify,
                                           std::uint64_t bytes) {
  projection_.finish(handles);
  std::vector<FastValues> out(matrices_.size());
  std::vector<BoundClaim> claims;
  for (std::size_t i = 0; i < matrices_.size(); ++i) {
    const auto matrix = static_cast<std::int64_t>(i);
    out[i].rounds = found_[i].rounds;
    out[i].converged = found_[i].converged && projection_.is_sound(matrix);
    if (!out[i].converged) {
      continue;
    }
    for (const double value : projection_.values(matrix).first(kFastValues)) {
      out[i].sigma.push_back(std::sqrt(std::max(value, 0.0)));
    }
    const double next = found_[i].values[kProvedVectors] + found_[i].residuals[kProvedVectors];
    claims.push_back({.matrix = matrix,
                      .gram = matrices_[i].gram,
                      .gram_scale = matrices_[i].gram_scale,
                      .next_value = next * matrices_[i].gram_scale,
                      .gram_error = matrices_[i].gram_error,
                      .sum_squares = matrices_[i].sum_squares});
  }
  if (certify && !claims.empty()) {
    std::vector<SpectrumBounds> bounds = prover_.prove(handles, projection_, claims, bytes);
    for (std::size_t i = 0; i < claims.size(); ++i) {
      out[static_cast<std::size_t>(claims[i].matrix)].bounds = std::move(bounds[i]);
    }
  }
  return out;
}

std::uint64_t fast_solver_bytes(std::int64_t short_side, std::int64_t long_side, std::int64_t batch,
                                std::int64_t slab_length, std::int64_t at_once) {
  const auto small = static_cast<std::uint64_t>(kProvedVectors * kProvedVectors) * sizeof(double);
  return subspace_bytes(short_side, kBlockWidth, batch) +
         projection_bytes({.short_side = short_side,
                           .long_side = long_side,
                           .count = kProvedVectors,
                           .batch = batch,
                           .with_image = false},
                          slab_length, at_once) +
         static_cast<std::uint64_t>(batch) * small * (statistics::bounded_count() + 2);
}

std::uint64_t vector_solver_bytes(std::int64_t short_side, std::int64_t long_side,
                                  std::int64_t batch, std::int64_t columns) {
  const std::uint64_t search =
      statistics::are_dense_vectors(short_side, columns)
          ? static_cast<std::uint64_t>(batch * (short_side + 1)) * sizeof(double)
          : subspace_bytes(short_side, statistics::vector_block_width(short_side, columns), batch);
  return search + projection_bytes({.short_side = short_side,
                                    .long_side = long_side,
                                    .count = columns,
                                    .batch = batch,
                                    .with_image = true},
                                   0, 1);
}

double tensor_gram_error_bound(std::int64_t long_side, std::int64_t sum_depth, double sum_squares) {
  constexpr double kUnit = 0x1p-24;
  constexpr double kTruncations = 36.0 / 16.0;  // of 2^-24, per product
  constexpr double kOperands = 24.0;
  const auto depth = static_cast<double>(sum_depth);
  const double chunks = std::ceil(static_cast<double>(long_side) / depth);
  return (kTruncations * depth + chunks + kOperands) * kUnit * sum_squares;
}

double rounded_gram_error_bound(std::int64_t long_side, double sum_squares, double frobenius) {
  return 0x1p-24 * frobenius + static_cast<double>(long_side + 4) * 0x1p-53 * sum_squares;
}

void VectorSolver::search(const LibraryHandles& handles, std::span<const GramView> grams,
                          std::int64_t short_side, std::int64_t long_side, std::int64_t columns) {
  const std::vector<TopSubspace> found =
      finder_.find(handles, grams, short_side, statistics::vector_block_width(short_side, columns),
                   [&](std::size_t /*index*/, std::span<const double> values,
                       std::span<const double> residuals) {
                     return statistics::is_enough_for_vectors(values, residuals, columns);
                   });
  std::vector<const float*> bases;
  for (const TopSubspace& one : found) {
    bases.push_back(one.basis);
  }
  projection_.start(handles,
                    {.short_side = short_side,
                     .long_side = long_side,
                     .count = columns,
                     .batch = static_cast<std::int64_t>(grams.size()),
                     .with_image = true},
                    bases);
}

void VectorSolver::solve(const LibraryHandles& handles, double* grams, std::int64_t batch,
                         std::int64_t short_side, std::int64_t long_side, std::int64_t columns) {
  auto* values = values_.reserve_array<double>(static_cast<std::size_t>(batch * (short_side + 1)));
  auto* info = reinterpret_cast<int*>(values + batch * short_side);
  eigen_.solve(handles, grams, short_side, batch, true, values, info);
  projection_.start(handles,
                    {.short_side = short_side,
                     .long_side = long_side,
                     .count = columns,
                     .batch = batch,
                     .with_image = true},
                    grams, short_side, short_side * short_side);
}

SingularVectors VectorSolver::triplets(const LibraryHandles& handles, std::int64_t matrix,
                                       std::int32_t wanted, bool short_is_right,
                                       double sum_squares) {
  if (!projection_.is_sound(matrix)) {
    throw DeviceError("E-CUDA-VECTORS", "the iteration for singular vectors did not converge");
  }
  const ProjectionShape& shape = projection_.shape();
  const std::int64_t columns = shape.count;
  const std::vector<double> basis =
      on_host(handles, projection_.basis(matrix), shape.short_side * columns);
  const std::vector<double> image =
      on_host(handles, projection_.image(matrix), shape.long_side * columns);
  const std::vector<double> residual =
      on_host(handles, projection_.residual(matrix), shape.short_side * columns);
  return statistics::singular_triplets({.basis = basis,
                                        .image = image,
                                        .residuals = residual,
                                        .sum_squares = sum_squares,
                                        .short_side = shape.short_side,
                                        .long_side = shape.long_side,
                                        .count = columns,
                                        .short_is_right = short_is_right,
                                        .scale_exponent = 0},
                                       wanted);
}

}  // namespace vindex::kernels
