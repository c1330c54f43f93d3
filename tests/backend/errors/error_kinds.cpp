// Owns the profiles of singular values and the turns of columns of which a case is made.
#include "error_kinds.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace vindex::test {
namespace {

std::vector<double> shuffled(std::vector<double> values, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  for (std::size_t i = values.size(); i > 1; --i) {
    std::swap(values[i - 1], values[engine() % i]);
  }
  return values;
}

struct Profile {
  const char* name;
  std::vector<double> values;
};

std::vector<Profile> profiles(std::int64_t p) {
  const auto power = [&](double exponent) {
    std::vector<double> values;
    for (std::int64_t i = 0; i < p; ++i) {
      values.push_back(std::pow(static_cast<double>(i + 1), -exponent));
    }
    return values;
  };
  const auto two_levels = [&](double low) {
    std::vector<double> values(static_cast<std::size_t>(p), low);
    std::fill_n(values.begin(), p / 2, 1.0);
    return values;
  };
  const std::vector<double> flat(static_cast<std::size_t>(p), 1.0);
  return {{"flat", flat},
          {"one above, 1e3", dlatm1_values(1, 1e3, p, 1)},
          {"one below, 1e3", dlatm1_values(2, 1e3, p, 1)},
          {"geometric, 3", dlatm1_values(3, 3.0, p, 1)},
          {"geometric, 30", dlatm1_values(3, 30.0, p, 1)},
          {"geometric, 1e3", dlatm1_values(3, 1e3, p, 1)},
          {"geometric, 1e6", dlatm1_values(3, 1e6, p, 1)},
          {"arithmetic, 1e3", dlatm1_values(4, 1e3, p, 1)},
          {"log-uniform, 1e3", dlatm1_values(5, 1e3, p, 1)},
          {"power -0.5", power(0.5)},
          {"power -1", power(1.0)},
          {"two levels, 0.5", two_levels(0.5)},
          {"two levels, 1e-3", two_levels(1e-3)}};
}

/// 32 columns at a time turned among themselves by orthogonal matrices.
void turn_blocks(FloatMatrix& tall, std::uint64_t seed) {
  constexpr std::int64_t kBlock = 32;
  for (std::int64_t first = 0; first + kBlock <= tall.cols; first += kBlock) {
    const std::vector<double> ones(kBlock, 1.0);
    FloatMatrix turn =
        matrix_with_spectrum(kBlock, kBlock, ones, seed + static_cast<std::uint64_t>(first));
    for (std::int64_t r = 0; r < tall.rows; ++r) {
      double out[kBlock] = {};
      for (std::int64_t k = 0; k < kBlock; ++k) {
        for (std::int64_t c = 0; c < kBlock; ++c) {
          out[c] += static_cast<double>(tall.at(r, first + k)) * turn.at(k, c);
        }
      }
      for (std::int64_t c = 0; c < kBlock; ++c) {
        tall.at(r, first + c) = static_cast<float>(out[c]);
      }
    }
  }
}

}  // namespace

FloatMatrix ErrorCase::make() const {
  if (lines == LineKind::kBothTurned) {
    return matrix_with_spectrum(rows, cols, scales, seed);
  }
  const std::int64_t p = std::min(rows, cols);
  const std::int64_t n = std::max(rows, cols);
  const bool is_noise = lines == LineKind::kScaledRows || lines == LineKind::kScaledColumns;
  const std::vector<double> ones(static_cast<std::size_t>(p), 1.0);
  // With orthonormal columns, n x p.
  FloatMatrix tall =
      is_noise ? gaussian_matrix(n, p, seed) : matrix_with_spectrum(n, p, ones, seed);
  for (std::int64_t r = 0; r < n; ++r) {
    for (std::int64_t c = 0; c < p; ++c) {
      const std::int64_t line = lines == LineKind::kScaledColumns ? r % p : c;
      tall.at(r, c) *= static_cast<float>(scales[static_cast<std::size_t>(line)]);
    }
  }
  if (lines == LineKind::kBlocks) {
    turn_blocks(tall, seed + 1);
  }
  return rows >= cols ? tall : transposed(tall);
}

std::vector<ErrorCase> error_cases(std::int64_t p) {
  struct Kind {
    const char* name;
    LineKind lines;
    std::int64_t rows, cols;
  };
  const Kind kinds[] = {{"U diag(s) V^T, tall", LineKind::kBothTurned, 2 * p, p},
                        {"U diag(s) V^T, square", LineKind::kBothTurned, p, p},
                        {"U diag(s), tall", LineKind::kOrthogonalColumns, 2 * p, p},
                        {"U diag(s), square", LineKind::kOrthogonalColumns, p, p},
                        {"diag(s) V^T, wide", LineKind::kOrthogonalRows, p, 2 * p},
                        {"U diag(s) in blocks", LineKind::kBlocks, 2 * p, p},
                        {"noise, scaled on the short side", LineKind::kScaledRows, p, 2 * p},
                        {"noise, scaled on the long side", LineKind::kScaledColumns, 2 * p, p}};
  std::vector<ErrorCase> out;
  std::uint64_t seed = 1000;
  for (const Kind& kind : kinds) {
    for (const Profile& profile : profiles(p)) {
      std::vector<double> rising(profile.values.rbegin(), profile.values.rend());
      struct Order {
        const char* name;
        std::vector<double> values;
      };
      std::vector<Order> orders = {{"falling", profile.values},
                                   {"rising", rising},
                                   {"shuffled", shuffled(profile.values, seed)}};
      if (kind.lines == LineKind::kBothTurned || profile.values.front() == profile.values.back()) {
        orders.resize(1);  // turning takes the order away
      }
      for (Order& order : orders) {
        out.push_back({.kind = kind.name,
                       .profile = std::string(profile.name) + ", " + order.name,
                       .rows = kind.rows,
                       .cols = kind.cols,
                       .lines = kind.lines,
                       .scales = std::move(order.values),
                       .seed = seed++});
      }
    }
  }
  return out;
}

}  // namespace vindex::test
