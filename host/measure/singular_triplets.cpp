#include "singular_triplets.hpp"

#include <vindex/error.hpp>

#include <algorithm>
#include <cmath>
#include <vector>

namespace vindex::measure {
namespace {

constexpr std::int64_t kDenseSize = 512;
constexpr std::int64_t kDenseShare = 4;
constexpr std::int64_t kMinGuard = 16;
/// Residual over the largest eigenvalue at which a float32 iteration has nothing left to gain.
constexpr double kResidual = 1e-6;

/// Unit float vector, turned by `sign`.
void append_unit(std::span<const double> from, double norm, double sign, std::vector<float>& to) {
  for (const double value : from) {
    to.push_back(static_cast<float>(sign * value / norm));
  }
}

double norm_of(std::span<const double> values) {
  double sum = 0.0;
  for (const double value : values) {
    sum += value * value;
  }
  return std::sqrt(sum);
}

double sign_of_largest(std::span<const double> values) {
  const auto largest = std::max_element(
      values.begin(), values.end(), [](double a, double b) { return std::abs(a) < std::abs(b); });
  return *largest < 0.0 ? -1.0 : 1.0;
}

}  // namespace

SingularVectors singular_triplets(const TripletInput& input, std::int32_t wanted) {
  const auto p = static_cast<std::size_t>(input.short_side);
  const auto n = static_cast<std::size_t>(input.long_side);
  const auto count = static_cast<std::size_t>(input.count);
  expects(input.basis.size() == p * count && input.image.size() == n * count &&
              input.residual_norms.size() == count,
          "singular_triplets: arrays of the stated size");
  std::vector<double> sigma;
  for (std::size_t j = 0; j < count; ++j) {
    sigma.push_back(norm_of(input.image.subspan(j * n, n)));
  }
  SingularVectors out;
  for (std::size_t j = 0; j < std::min(count, static_cast<std::size_t>(wanted)); ++j) {
    if (!(sigma[j] > 0.0)) {
      break;
    }
    const std::span<const double> v = input.basis.subspan(j * p, p);
    const std::span<const double> u = input.image.subspan(j * n, n);
    const double sign = input.short_is_right ? sign_of_largest(v) : sign_of_largest(u);
    append_unit(v, norm_of(v), sign, input.short_is_right ? out.right : out.left);
    append_unit(u, sigma[j], sign, input.short_is_right ? out.left : out.right);
    double gap = j > 0 ? sigma[j - 1] - sigma[j] : sigma[j];
    if (j + 1 < count) {
      const double below = sigma[j] - sigma[j + 1];
      gap = j > 0 ? std::min(gap, below) : below;
    }
    out.sigma.push_back(std::ldexp(sigma[j], -input.scale_exponent));
    out.residual.push_back(std::ldexp(input.residual_norms[j] / sigma[j], -input.scale_exponent));
    out.gap.push_back(std::ldexp(std::max(gap, 0.0), -input.scale_exponent));
    ++out.count;
  }
  return out;
}

std::int64_t triplet_columns(std::int64_t short_side, std::int32_t wanted) {
  return std::min<std::int64_t>(std::int64_t{wanted} + 1, short_side);
}

bool are_dense_vectors(std::int64_t short_side, std::int64_t columns) {
  return short_side <= kDenseSize || columns * kDenseShare > short_side;
}

std::int64_t vector_block_width(std::int64_t short_side, std::int64_t columns) {
  return std::min(short_side, columns + std::max(kMinGuard, columns / 2));
}

bool is_enough_for_vectors(std::span<const double> values, std::span<const double> residuals,
                           std::int64_t columns) {
  return *std::max_element(residuals.begin(), residuals.begin() + columns) <=
         kResidual * values.front();
}

}  // namespace vindex::measure
