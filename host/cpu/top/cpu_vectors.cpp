// Owns the search for singular vectors: a subspace first, then Ritz vectors and residuals from the
// weights themselves. Small matrices, and subspaces that are most of the matrix, get theirs from
// LAPACK's syevr on a float64 Gram; others from the block iteration of `fast` on a float32 one,
// which costs a few products of a block with it in place of several p^3.
//
// The vectors of one side are V, those of the other W V / s: W V is at hand from the pass, and so
// the pair is exact in one direction and its residual says what is missing in the other.
#include "cpu_vectors.hpp"

#include "chebyshev.hpp"
#include "projection.hpp"

#include "backend/backend.hpp"
#include "blas/blas.hpp"
#include "blas/steps/steps.hpp"
#include "cpu/gram/form_gram.hpp"
#include "cpu/workspace/stopwatch.hpp"
#include "statistics/spectrum/singular_triplets.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

namespace vindex::cpu {
namespace {

/// What steps::syevr() takes for its work and integers.
std::int64_t dense_work(std::int64_t p) {
  return blas::steps::kSyevrWork * p + blas::steps::kSyevrMore;
}
constexpr std::int64_t kDenseIntegers = 12;

/// Eigenvectors of the `count` largest eigenvalues of a float64 Gram. Source: LAPACK dsyevr.
WorkArray<double> dense_vectors(TileReader& reader, const SvdPlan& plan, TileChange& change,
                                std::int64_t count, Workspace& workspace, MatrixReport& report) {
  const std::int64_t p = plan.short_side;
  WorkArray<double> gram(workspace, p * p, "the Gram matrix");
  form_gram(reader, plan, change, workspace, gram.data(), report.seconds_gram);
  const Stopwatch watch(report.seconds_eigen);
  WorkArray<double> vectors(workspace, p * count, "singular vectors");
  WorkArray<double> values(workspace, p, "eigenvalues");
  WorkArray<double> work(workspace, dense_work(p), "eigenvectors");
  WorkArray<int> integers(workspace, kDenseIntegers * p, "eigenvectors");
  blas::steps::syevr(p, {gram.data(), p}, count, values.data(), vectors.data(), work.data(),
                     integers.data(), workspace.stop());
  return vectors;
}

WorkArray<double> filtered_vectors(TileReader& reader, const SvdPlan& plan, TileChange& change,
                                   std::int64_t count, Workspace& workspace, MatrixReport& report) {
  const std::int64_t p = plan.short_side;
  WorkArray<float> gram(workspace, p * p, "the Gram matrix");
  form_gram(reader, plan, change, workspace, gram.data(), report.seconds_gram);
  const Stopwatch watch(report.seconds_eigen);
  const auto enough = [&](std::span<const double> values, std::span<const double> residuals) {
    return statistics::is_enough_for_vectors(values, residuals, count);
  };
  const TopSubspace top =
      top_subspace(gram.data(), p, statistics::vector_block_width(p, count), enough, workspace);
  return widened(top.basis.data(), p, count, workspace);
}

}  // namespace

std::uint64_t vectors_bytes(const SvdPlan& plan, std::int32_t wanted) {
  const std::int64_t p = plan.short_side;
  const std::int64_t count = statistics::triplet_columns(p, wanted);
  const std::uint64_t search =
      statistics::are_dense_vectors(p, count)
          ? array_bytes(p * p, sizeof(double)) + array_bytes(plan.chunk * p, sizeof(double)) +
                array_bytes(p, sizeof(double)) + array_bytes(dense_work(p), sizeof(double)) +
                array_bytes(kDenseIntegers * p, sizeof(int))
          : array_bytes(p * p, sizeof(float)) +
                top_subspace_bytes(p, statistics::vector_block_width(p, count));
  return array_bytes(p * count, sizeof(double)) +
         std::max(search, projection_bytes(plan, count, true)) +
         static_cast<std::uint64_t>(wanted) *
             static_cast<std::uint64_t>(plan.short_side + plan.long_side) * sizeof(float) * 2;
}

SingularVectors singular_vectors(TileReader& reader, const SvdPlan& plan, std::int32_t wanted,
                                 bool transposed, Workspace& workspace, MatrixReport& report) {
  const std::int64_t p = plan.short_side;
  const std::int64_t n = plan.long_side;
  const std::int64_t count = statistics::triplet_columns(p, wanted);
  TileChange change;
  change.scale_exponent = gram_scale_exponent(reader.moments().max_abs());
  WorkArray<double> start = statistics::are_dense_vectors(p, count)
                                ? dense_vectors(reader, plan, change, count, workspace, report)
                                : filtered_vectors(reader, plan, change, count, workspace, report);
  const Projection projection =
      project(reader, plan, change, std::move(start), count, true, workspace, report.seconds_eigen);
  const auto columns = [count](const WorkArray<double>& array, std::int64_t length) {
    return std::span<const double>(array.data(), static_cast<std::size_t>(count * length));
  };
  return statistics::singular_triplets(
      {.basis = columns(projection.basis, p),
       .image = columns(projection.image, n),
       .residuals = columns(projection.residual, p),
       .sum_squares = std::ldexp(reader.moments().sum_squares, 2 * change.scale_exponent),
       .short_side = p,
       .long_side = n,
       .count = count,
       .short_is_right = plan.row_slabs != transposed,
       .scale_exponent = change.scale_exponent},
      wanted);
}

}  // namespace vindex::cpu
