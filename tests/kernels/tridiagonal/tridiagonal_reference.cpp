// Owns the calls of LAPACK for reference values, and the tridiagonal matrices that solvers find
// hard.
#include "tridiagonal_reference.hpp"

#include <gtest/gtest.h>
#include <lapacke.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace vindex::test {

std::vector<double> values_of(const Tridiagonal& matrix) {
  std::vector<double> values = matrix.diagonal;
  std::vector<double> off = matrix.off_diagonal;
  const auto n = static_cast<lapack_int>(values.size());
  lapack_int info = 0;
  LAPACK_dsterf(&n, values.data(), off.data(), &info);
  EXPECT_EQ(info, 0);
  return values;
}

double largest_difference(std::span<const double> a, std::span<const double> b) {
  if (a.size() != b.size()) {
    return std::numeric_limits<double>::infinity();
  }
  double largest = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(a[i] - b[i]);
    if (std::isnan(difference)) {
      return std::numeric_limits<double>::infinity();
    }
    largest = std::max(largest, difference);
  }
  return largest;
}

double largest_magnitude(std::span<const double> values) {
  double largest = 0.0;
  for (const double value : values) {
    largest = std::max(largest, std::abs(value));
  }
  return largest;
}

std::vector<NamedTridiagonal> hard_tridiagonals(std::int64_t n, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  const auto size = static_cast<std::size_t>(n);
  const auto make = [&](auto&& diagonal, auto&& off) {
    Tridiagonal out;
    for (std::size_t i = 0; i < size; ++i) {
      out.diagonal.push_back(diagonal(static_cast<double>(i)));
      out.off_diagonal.push_back(i + 1 < size ? off(static_cast<double>(i)) : 0.0);
    }
    return out;
  };
  const double middle = 0.5 * static_cast<double>(n - 1);
  const auto noise = [&](double) { return normal(random); };
  std::vector<NamedTridiagonal> out;
  out.push_back({"Gaussian", make(noise, noise)});
  out.push_back({"Laplace", make([](double) { return 2.0; }, [](double) { return -1.0; })});
  out.push_back({"Wilkinson",
                 make([&](double i) { return std::abs(i - middle); }, [](double) { return 1.0; })});
  out.push_back(
      {"glued Wilkinson", make([](double i) { return std::abs(std::fmod(i, 21) - 10); },
                               [](double i) { return std::fmod(i, 21) == 20 ? 1e-9 : 1.0; })});
  out.push_back({"geometric", make([](double i) { return std::pow(0.9, i); },
                                   [](double i) { return 0.3 * std::pow(0.9, i); })});
  out.push_back({"identity", make([](double) { return 1.0; }, [](double) { return 0.0; })});
  out.push_back({"two clusters", make([](double i) { return i < 3 ? 1.0 : 1e-8; },
                                      [&](double) { return 1e-12 * normal(random); })});
  out.push_back({"zero diagonal", make([](double) { return 0.0; }, [](double) { return 1.0; })});
  out.push_back({"decoupled", make(noise, [&](double i) {
                   return std::fmod(i, 3) == 2 ? normal(random) : 0.0;
                 })});
  out.push_back(
      {"tiny couplings", make([](double i) { return i; }, [](double) { return 1e-200; })});
  return out;
}

std::vector<double> band_of_noise(std::int64_t n, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::vector<double> band(static_cast<std::size_t>(n * 33));
  // Norm about 1: a row holds 65 entries.
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t below = 0; below <= 32 && j + below < n; ++below) {
      band[static_cast<std::size_t>(j * 33 + below)] = 0.06 * normal(random);
    }
  }
  return band;
}

std::vector<double> values_of_band(std::vector<double> band, std::int64_t n) {
  const auto order = static_cast<lapack_int>(n);
  const lapack_int width = 32;
  const lapack_int leading = 33;
  const lapack_int one = 1;
  std::vector<double> values(static_cast<std::size_t>(n));
  std::vector<double> work(static_cast<std::size_t>(std::max<std::int64_t>(1, 3 * n)));
  double unused = 0.0;
  lapack_int info = 0;
  LAPACK_dsbev("N", "L", &order, &width, band.data(), &leading, values.data(), &unused, &one,
               work.data(), &info);
  EXPECT_EQ(info, 0);
  return values;
}

}  // namespace vindex::test
