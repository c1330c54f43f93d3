// Owns rounding vectors to float32, choosing their signs, and adding up what the rounding did to
// their residuals.
#include "singular_triplets.hpp"

#include <vindex/error.hpp>

#include <algorithm>
#include <cmath>
#include <vector>

namespace vindex::statistics {
namespace {

constexpr std::int64_t kDenseSize = 512;
constexpr std::int64_t kDenseShare = 4;
constexpr std::int64_t kMinGuard = 16;
/// Residual over the largest eigenvalue at which a float32 iteration has nothing left to gain.
constexpr double kResidual = 1e-6;

/// Leading vectors with which a rounding error is compared one by one.
constexpr std::size_t kKnownVectors = 32;

/// Appends the unit vector as float32, turned by `sign`; returns what rounding did to it, not
/// turned.
std::vector<double> append_unit(std::span<const double> from, double norm, double sign,
                                std::vector<float>& to) {
  std::vector<double> errors;
  errors.reserve(from.size());
  for (const double value : from) {
    const auto stored = static_cast<float>(sign * value / norm);
    to.push_back(stored);
    errors.push_back(sign * static_cast<double>(stored) - value / norm);
  }
  return errors;
}

double dot(std::span<const double> a, std::span<const double> b) {
  // Lanes, in a fixed order: one sum would wait for each addition.
  double lanes[8] = {};
  const std::size_t whole = a.size() - a.size() % 8;
  for (std::size_t i = 0; i < whole; i += 8) {
    for (std::size_t lane = 0; lane < 8; ++lane) {
      lanes[lane] += a[i + lane] * b[i + lane];
    }
  }
  double sum = 0.0;
  for (const double lane : lanes) {
    sum += lane;
  }
  for (std::size_t i = whole; i < a.size(); ++i) {
    sum += a[i] * b[i];
  }
  return sum;
}

void add_multiple(std::span<double> to, double factor, std::span<const double> from) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    to[i] += factor * from[i];
  }
}

double norm_of(std::span<const double> values) {
  double sum = 0.0;
  for (const double value : values) {
    sum += value * value;
  }
  return std::sqrt(sum);
}

/// What the vectors of one matrix leave once they are float32.
class StoredResiduals {
 public:
  StoredResiduals(const TripletInput& input, std::span<const double> sigma)
      : input_(input), sigma_(sigma) {
    known_ = std::min({kKnownVectors, sigma.size(),
                       static_cast<std::size_t>(std::find_if(sigma.begin(), sigma.end(),
                                                             [](double s) { return !(s > 0.0); }) -
                                                sigma.begin())});
    rest_ = input.sum_squares;
    for (std::size_t j = 0; j < known_; ++j) {
      rest_ -= sigma[j] * sigma[j];
    }
    rest_ = std::max(rest_, 0.0);
  }

  /// Of triplet j with the rounding errors `e` of its v and `f` of its u; in the scale of `input`.
  double of(std::size_t j, std::span<const double> e, std::span<const double> f) const {
    const double s = sigma_[j];
    std::vector<double> forward(f.size(), 0.0);  // W e - s f, but for W on what is left of e
    std::vector<double> backward(e.size(), 0.0);
    double e_left = dot(e, e);
    double f_left = dot(f, f);
    for (std::size_t i = 0; i < known_; ++i) {
      const double along_v = dot(basis(i), e);
      const double along_u = dot(image(i), f) / sigma_[i];
      e_left -= along_v * along_v;
      f_left -= along_u * along_u;
      add_multiple(forward, along_v, image(i));  // sigma u
      add_multiple(backward, along_u * sigma_[i], basis(i));
      add_multiple(backward, along_u / sigma_[i], residual(i));
    }
    add_multiple(forward, -s, f);
    add_multiple(backward, -s, e);
    add_multiple(backward, 1.0 / s, residual(j));
    const double ahead = dot(forward, forward) + spread(e_left, e.size());
    const double back = dot(backward, backward) + spread(f_left, f.size());
    return std::sqrt(std::max(ahead, back));
  }

 private:
  std::span<const double> column(std::span<const double> from, std::int64_t length,
                                 std::size_t j) const {
    const auto size = static_cast<std::size_t>(length);
    return from.subspan(j * size, size);
  }
  std::span<const double> basis(std::size_t j) const {
    return column(input_.basis, input_.short_side, j);
  }
  std::span<const double> image(std::size_t j) const {
    return column(input_.image, input_.long_side, j);
  }
  std::span<const double> residual(std::size_t j) const {
    return column(input_.residuals, input_.short_side, j);
  }
  /// |W x|^2 for x of squared length `left` in a random direction outside the known ones, of
  /// `dimensions` in all.
  double spread(double left, std::size_t dimensions) const {
    return dimensions > known_
               ? std::max(left, 0.0) * rest_ / static_cast<double>(dimensions - known_)
               : 0.0;
  }

  const TripletInput& input_;
  std::span<const double> sigma_;
  std::size_t known_ = 0;
  double rest_ = 0.0;  ///< sum of the squares of the other singular values
};

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
              input.residuals.size() == p * count,
          "singular_triplets: arrays of the stated size");
  std::vector<double> sigma;
  for (std::size_t j = 0; j < count; ++j) {
    sigma.push_back(norm_of(input.image.subspan(j * n, n)));
  }
  const StoredResiduals residuals(input, sigma);
  SingularVectors out;
  for (std::size_t j = 0; j < std::min(count, static_cast<std::size_t>(wanted)); ++j) {
    if (!(sigma[j] > 0.0)) {
      break;
    }
    const std::span<const double> v = input.basis.subspan(j * p, p);
    const std::span<const double> u = input.image.subspan(j * n, n);
    const double sign = input.short_is_right ? sign_of_largest(v) : sign_of_largest(u);
    const auto e = append_unit(v, norm_of(v), sign, input.short_is_right ? out.right : out.left);
    const auto f = append_unit(u, sigma[j], sign, input.short_is_right ? out.left : out.right);
    double gap = j > 0 ? sigma[j - 1] - sigma[j] : sigma[j];
    if (j + 1 < count) {
      const double below = sigma[j] - sigma[j + 1];
      gap = j > 0 ? std::min(gap, below) : below;
    }
    out.sigma.push_back(std::ldexp(sigma[j], -input.scale_exponent));
    out.residual.push_back(std::ldexp(residuals.of(j, e, f), -input.scale_exponent));
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

}  // namespace vindex::statistics
