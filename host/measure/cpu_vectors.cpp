#include "cpu_vectors.hpp"

#include "chebyshev.hpp"
#include "cpu_routes.hpp"
#include "lapack.hpp"
#include "projection.hpp"
#include "stopwatch.hpp"

#include <vindex/core/error.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

namespace vindex::measure {
namespace {

/// Up to this short side, or where more than a quarter of all vectors is wanted, LAPACK's dense
/// float64 solver is used.
constexpr std::int64_t kDenseSize = 512;
constexpr std::int64_t kDenseShare = 4;
constexpr std::int64_t kLeastGuard = 16;
/// Residual over the largest eigenvalue at which a float32 iteration has nothing left to gain.
constexpr double kResidual = 1e-6;

bool is_dense(std::int64_t p, std::int64_t count) {
  return p <= kDenseSize || count * kDenseShare > p;
}

std::int64_t block_width(std::int64_t p, std::int64_t count) {
  return std::min(p, count + std::max(kLeastGuard, count / 2));
}

/// Eigenvectors of the `count` largest eigenvalues of a float64 Gram. Source: LAPACK dsyevr.
WorkArray<double> dense_vectors(TileReader& reader, const SvdPlan& plan, TileChange& change,
                                std::int64_t count, Workspace& workspace, MatrixReport& report) {
  const std::int64_t p = plan.short_side;
  WorkArray<double> gram(workspace, p * p, "the Gram matrix");
  form_gram(reader, plan, change, workspace, gram.data(), report.seconds_gram);
  const Stopwatch watch(report.seconds_eigen);
  WorkArray<double> vectors(workspace, p * count, "singular vectors");
  WorkArray<double> values(workspace, p, "eigenvalues");
  WorkArray<double> work(workspace, 34 * p, "eigenvectors");
  WorkArray<lapack_int> integers(workspace, 12 * p, "eigenvectors");
  const auto n = static_cast<lapack_int>(p);
  const auto first = static_cast<lapack_int>(p - count + 1);
  const auto work_size = static_cast<lapack_int>(work.size());
  const auto integer_size = static_cast<lapack_int>(10 * p);
  const double unused = 0.0;
  lapack_int found = 0;
  lapack_int info = 0;
  LAPACK_dsyevr("V", "I", "U", &n, gram.data(), &n, &unused, &unused, &first, &n, &unused, &found,
                values.data(), vectors.data(), &n, integers.data() + 10 * p, work.data(),
                &work_size, integers.data(), &integer_size, &info);
  expects(info == 0 && found == n - first + 1, "dsyevr finds the largest eigenvalues");
  return vectors;
}

WorkArray<double> filtered_vectors(TileReader& reader, const SvdPlan& plan, TileChange& change,
                                   std::int64_t count, Workspace& workspace, MatrixReport& report) {
  const std::int64_t p = plan.short_side;
  WorkArray<float> gram(workspace, p * p, "the Gram matrix");
  form_gram(reader, plan, change, workspace, gram.data(), report.seconds_gram);
  const Stopwatch watch(report.seconds_eigen);
  const auto enough = [&](std::span<const double> values, std::span<const double> residuals) {
    return *std::max_element(residuals.begin(), residuals.begin() + count) <=
           kResidual * values.front();
  };
  const TopSubspace top = top_subspace(gram.data(), p, block_width(p, count), enough, workspace);
  return widened(top.basis.data(), p, count, workspace);
}

/// Unit float vector of `length` doubles, turned by `sign`.
void append_unit(const double* from, std::int64_t length, double norm, double sign,
                 std::vector<float>& to) {
  for (std::int64_t i = 0; i < length; ++i) {
    to.push_back(static_cast<float>(sign * from[i] / norm));
  }
}

double norm_of(const double* from, std::int64_t length) {
  double sum = 0.0;
  for (std::int64_t i = 0; i < length; ++i) {
    sum += from[i] * from[i];
  }
  return std::sqrt(sum);
}

double sign_of_largest(const double* from, std::int64_t length) {
  const double* const largest = std::max_element(
      from, from + length, [](double a, double b) { return std::abs(a) < std::abs(b); });
  return *largest < 0.0 ? -1.0 : 1.0;
}

}  // namespace

std::uint64_t vectors_bytes(const SvdPlan& plan, std::int32_t wanted) {
  const std::int64_t p = plan.short_side;
  const std::int64_t count = std::min<std::int64_t>(std::int64_t{wanted} + 1, p);
  const std::uint64_t search =
      is_dense(p, count)
          ? array_bytes(p * p, sizeof(double)) + array_bytes(plan.chunk * p, sizeof(double)) +
                array_bytes(42 * p, sizeof(double))
          : array_bytes(p * p, sizeof(float)) + top_subspace_bytes(p, block_width(p, count));
  return array_bytes(p * count, sizeof(double)) +
         std::max(search, projection_bytes(plan, count, true)) +
         static_cast<std::uint64_t>(wanted) *
             static_cast<std::uint64_t>(plan.short_side + plan.long_side) * sizeof(float) * 2;
}

SingularVectors singular_vectors(TileReader& reader, const SvdPlan& plan, std::int32_t wanted,
                                 bool transposed, Workspace& workspace, MatrixReport& report) {
  const std::int64_t p = plan.short_side;
  const std::int64_t n = plan.long_side;
  // One more than wanted, so that the last one's gap is known.
  const std::int64_t count = std::min<std::int64_t>(std::int64_t{wanted} + 1, p);
  TileChange change;
  change.scale_exponent = gram_scale_exponent(reader.moments().max_abs());
  WorkArray<double> start = is_dense(p, count)
                                ? dense_vectors(reader, plan, change, count, workspace, report)
                                : filtered_vectors(reader, plan, change, count, workspace, report);
  const Projection projection =
      project(reader, plan, change, std::move(start), count, true, workspace, report.seconds_eigen);
  std::vector<double> sigma;
  for (std::int64_t j = 0; j < count; ++j) {
    sigma.push_back(norm_of(projection.image.data() + j * n, n));
  }

  SingularVectors out;
  const bool short_is_right = plan.row_slabs != transposed;
  for (std::int64_t j = 0; j < std::min<std::int64_t>(wanted, p); ++j) {
    const auto index = static_cast<std::size_t>(j);
    if (!(sigma[index] > 0.0)) {
      break;
    }
    const double* const v = projection.basis.data() + j * p;
    const double* const u = projection.image.data() + j * n;
    const double sign = short_is_right ? sign_of_largest(v, p) : sign_of_largest(u, n);
    append_unit(v, p, norm_of(v, p), sign, short_is_right ? out.right : out.left);
    append_unit(u, n, sigma[index], sign, short_is_right ? out.left : out.right);
    double gap = j > 0 ? sigma[index - 1] - sigma[index] : sigma[index];
    if (j + 1 < count) {
      const double below = sigma[index] - sigma[index + 1];
      gap = j > 0 ? std::min(gap, below) : below;
    }
    const double residual = norm_of(projection.residual.data() + j * p, p) / sigma[index];
    out.sigma.push_back(std::ldexp(sigma[index], -change.scale_exponent));
    out.residual.push_back(std::ldexp(residual, -change.scale_exponent));
    out.gap.push_back(std::ldexp(std::max(gap, 0.0), -change.scale_exponent));
    ++out.count;
  }
  return out;
}

}  // namespace vindex::measure
