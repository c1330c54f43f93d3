// Owns principal angles of two subspaces (Bjorck and Golub 1973). With orthonormal A and B,
//
//   C = B A^T,   turned by J so that the rows of J C are orthogonal:  cosines = their norms
//   S = J (B - C A),                                                   sines  = norms of its rows
//   angle = atan2(sine, cosine),    overlap = ||C||_F^2 / K
//
// J comes from one-sided Jacobi rotations (Hestenes 1958), each of the tangent t = sign(zeta) /
// (|zeta| + sqrt(1 + zeta^2)), zeta = (|y|^2 - |x|^2) / (2 x.y), the smaller of its two roots.
//
// Why not arccos of singular values: near 0 an angle loses half its digits there, and near
// subspaces are what is looked for. Why Jacobi: it turns the sines along with the cosines, needs no
// library, and K is a few hundred at most.
#include "subspace_overlap.hpp"

#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

namespace vindex::statistics {
namespace {

/// Vectors one after the other, each of `length` numbers.
struct Basis {
  std::vector<double> values;
  std::size_t count = 0, length = 0;
  double* at(std::size_t i) { return values.data() + i * length; }
  const double* at(std::size_t i) const { return values.data() + i * length; }
};

/// Four sums at once: the order is fixed, and additions do not wait for each other.
double inner(const double* a, const double* b, std::size_t count) {
  double sums[4] = {};
  std::size_t i = 0;
  for (; i + 4 <= count; i += 4) {
    for (std::size_t lane = 0; lane < 4; ++lane) {
      sums[lane] += a[i + lane] * b[i + lane];
    }
  }
  for (; i < count; ++i) {
    sums[0] += a[i] * b[i];
  }
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

void add(double factor, const double* from, std::size_t count, double* to) {
  for (std::size_t i = 0; i < count; ++i) {
    to[i] += factor * from[i];
  }
}

/// Gram-Schmidt, twice: orthonormal to rounding. Nothing where one depends on those before it.
std::optional<Basis> orthonormal(std::span<const float> vectors, std::int64_t count,
                                 std::int64_t length) {
  Basis basis{std::vector<double>(vectors.begin(), vectors.end()), static_cast<std::size_t>(count),
              static_cast<std::size_t>(length)};
  constexpr double kIndependent = 1e-3;
  for (std::size_t i = 0; i < basis.count; ++i) {
    double* const v = basis.at(i);
    const double before = std::sqrt(inner(v, v, basis.length));
    // One pass leaves eps times the condition of the vectors; a second leaves eps.
    for (int pass = 0; pass < 2; ++pass) {
      for (std::size_t j = 0; j < i; ++j) {
        add(-inner(basis.at(j), v, basis.length), basis.at(j), basis.length, v);
      }
    }
    const double norm = std::sqrt(inner(v, v, basis.length));
    if (!(norm > kIndependent * before)) {
      return std::nullopt;
    }
    for (std::size_t k = 0; k < basis.length; ++k) {
      v[k] /= norm;
    }
  }
  return basis;
}

/// One-sided Jacobi: turns the rows of `matrix` (count x count) until they are orthogonal, and the
/// rows of `others` along. Their norms are then the singular values.
void make_rows_orthogonal(Basis& matrix, Basis& others) {
  constexpr int kMaxSweeps = 60;
  constexpr double kOrthogonal = 1e-15;
  for (int sweep = 0; sweep < kMaxSweeps; ++sweep) {
    bool turned = false;
    for (std::size_t i = 0; i + 1 < matrix.count; ++i) {
      for (std::size_t j = i + 1; j < matrix.count; ++j) {
        double* const x = matrix.at(i);
        double* const y = matrix.at(j);
        const double xx = inner(x, x, matrix.length);
        const double yy = inner(y, y, matrix.length);
        const double xy = inner(x, y, matrix.length);
        if (std::abs(xy) <= kOrthogonal * std::sqrt(xx * yy) || xy == 0.0) {
          continue;
        }
        turned = true;
        const double zeta = (yy - xx) / (2.0 * xy);
        const double t = std::copysign(1.0, zeta) / (std::abs(zeta) + std::hypot(1.0, zeta));
        const double c = 1.0 / std::hypot(1.0, t);
        const double s = c * t;
        const auto turn = [&](double* p, double* q, std::size_t count) {
          for (std::size_t k = 0; k < count; ++k) {
            const double left = p[k];
            p[k] = c * left - s * q[k];
            q[k] = s * left + c * q[k];
          }
        };
        turn(x, y, matrix.length);
        turn(others.at(i), others.at(j), others.length);
      }
    }
    if (!turned) {
      return;
    }
  }
}

}  // namespace

std::optional<SubspaceOverlap> subspace_overlap(std::span<const float> a, std::span<const float> b,
                                                std::int64_t count, std::int64_t length) {
  expects(count >= 1 && count <= length && a.size() == static_cast<std::size_t>(count * length) &&
              b.size() == a.size(),
          "subspace_overlap: two sets of as many vectors");
  const std::optional<Basis> basis_a = orthonormal(a, count, length);
  std::optional<Basis> basis_b = orthonormal(b, count, length);
  if (!basis_a || !basis_b) {
    return std::nullopt;
  }
  const Basis& left = *basis_a;
  Basis& right = *basis_b;
  // Row j of `cosines`: components of B's vector j along A's; what is beside them stays in `right`.
  Basis cosines{std::vector<double>(left.count * left.count), left.count, left.count};
  SubspaceOverlap out;
  for (std::size_t j = 0; j < right.count; ++j) {
    for (std::size_t i = 0; i < left.count; ++i) {
      cosines.at(j)[i] = inner(left.at(i), right.at(j), left.length);
      out.overlap += cosines.at(j)[i] * cosines.at(j)[i];
    }
    for (std::size_t i = 0; i < left.count; ++i) {
      add(-cosines.at(j)[i], left.at(i), left.length, right.at(j));
    }
  }
  out.overlap = std::min(out.overlap / static_cast<double>(count), 1.0);
  make_rows_orthogonal(cosines, right);
  for (std::size_t j = 0; j < right.count; ++j) {
    const double cosine = std::sqrt(inner(cosines.at(j), cosines.at(j), cosines.length));
    const double sine = std::sqrt(inner(right.at(j), right.at(j), right.length));
    out.angles.push_back(std::atan2(sine, cosine) * 180.0 / std::numbers::pi);
  }
  std::sort(out.angles.begin(), out.angles.end());
  return out;
}

OverlapNull subspace_overlap_null(std::int64_t count, std::int64_t length) {
  if (count < 1 || count > length) {
    return {};
  }
  const auto n = static_cast<double>(length);
  const double mean = static_cast<double>(count) / n;
  return {
      .mean = mean,
      .deviation = count == length ? 0.0 : (1.0 - mean) * std::sqrt(2.0 / ((n - 1.0) * (n + 2.0)))};
}

SubspaceGap subspace_gap(const MatrixReport& report, std::int64_t count, std::int64_t short_side) {
  SubspaceGap gap{.relative = std::numeric_limits<double>::quiet_NaN(), .error = {}};
  if (count > short_side) {
    gap.error = fmt::format("its short side is {}", short_side);
    return gap;
  }
  if (!report.vectors || report.vectors->count < count) {
    const std::int32_t found = report.vectors ? report.vectors->count : 0;
    gap.error = fmt::format("{} singular value{} above zero", found, found == 1 ? "" : "s");
    return gap;
  }
  const SingularVectors& vectors = *report.vectors;
  const auto k = static_cast<std::size_t>(count);
  const double last = vectors.sigma[k - 1];
  // Vectors of values that are zero are any, and their residuals as large as may be.
  const double known = std::isfinite(report.sigma_error) ? report.sigma_error : 0.0;
  double error = known;
  for (std::size_t i = 0; i < k; ++i) {
    error = std::max(error, vectors.residual[i]);
    if (!(vectors.sigma[i] > std::max(known, vectors.residual[i]))) {
      gap.error = fmt::format("{} singular value{} distinct from zero", i, i == 1 ? "" : "s");
      return gap;
    }
  }
  gap.is_found = true;
  // Values of the vectors' own iteration first; the spectrum beyond them.
  double apart = last;
  if (count < short_side) {
    apart = vectors.sigma.size() > k  ? last - vectors.sigma[k]
            : report.sigma.size() > k ? last - report.sigma[k]
                                      : vectors.gap[k - 1];
  }
  gap.relative = std::max(apart, 0.0) / last;
  if (!(apart > error) && count < short_side) {
    gap.error = fmt::format("values {} and {} differ by {:.1e} of themselves, known to {:.1e}",
                            count, count + 1, gap.relative, error / last);
  }
  return gap;
}

}  // namespace vindex::statistics
