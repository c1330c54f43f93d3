// Owns the drawing of factors and values, the reference by LAPACK, and the suites that tests run
// through.
#include "known_spectra.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <numbers>
#include <stdexcept>

#define LAPACK_COMPLEX_CPP
#include <lapacke.h>

namespace vindex::test {
namespace {

/// SplitMix64 (Steele, Lea, Flood 2014) and Box-Muller: the same numbers with every library.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  double uniform() {  // in (0, 1)
    state_ += 0x9E3779B97F4A7C15U;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
    z ^= z >> 31U;
    return (static_cast<double>(z >> 11U) + 0.5) * 0x1p-53;
  }
  double normal() {
    const double radius = std::sqrt(-2.0 * std::log(uniform()));
    return radius * std::cos(2.0 * std::numbers::pi * uniform());
  }

 private:
  std::uint64_t state_;
};

void check(lapack_int info, const char* what) {
  if (info != 0) {
    throw std::runtime_error(what);
  }
}

/// n x p column-major with orthonormal columns (Haar up to signs).
std::vector<double> orthonormal(std::int64_t n, std::int64_t p, Random& random) {
  std::vector<double> q(static_cast<std::size_t>(n * p));
  for (double& value : q) {
    value = random.normal();
  }
  const auto m = static_cast<lapack_int>(n);
  const auto k = static_cast<lapack_int>(p);
  std::vector<double> tau(static_cast<std::size_t>(p));
  std::vector<double> work(static_cast<std::size_t>(64 * std::max(n, p)));
  const auto size = static_cast<lapack_int>(work.size());
  lapack_int info = 0;
  LAPACK_dgeqrf(&m, &k, q.data(), &m, tau.data(), work.data(), &size, &info);
  check(info, "dgeqrf");
  LAPACK_dorgqr(&m, &k, &k, q.data(), &m, tau.data(), work.data(), &size, &info);
  check(info, "dorgqr");
  return q;
}

}  // namespace

std::vector<double> dlatm1_values(int mode, double condition, std::int64_t p, std::uint64_t seed) {
  Random random(seed);
  std::vector<double> values(static_cast<std::size_t>(p), 1.0);
  const auto last = static_cast<double>(std::max<std::int64_t>(p - 1, 1));
  for (std::int64_t i = 0; i < p; ++i) {
    double& value = values[static_cast<std::size_t>(i)];
    const double place = static_cast<double>(i) / last;
    switch (std::abs(mode)) {
      case 1:
        value = i == 0 ? 1.0 : 1.0 / condition;
        break;
      case 2:
        value = i == p - 1 ? 1.0 / condition : 1.0;
        break;
      case 3:
        value = std::pow(condition, -place);
        break;
      case 4:
        value = 1.0 - place * (1.0 - 1.0 / condition);
        break;
      case 5:
        value = std::exp(-std::log(condition) * random.uniform());
        break;
      case 6:
        value = random.uniform();
        break;
      default:
        throw std::invalid_argument("dlatm1 mode");
    }
  }
  if (mode < 0) {
    std::reverse(values.begin(), values.end());
  }
  return values;
}

FloatMatrix matrix_with_spectrum(std::int64_t rows, std::int64_t cols,
                                 std::span<const double> values, std::uint64_t seed) {
  const std::int64_t p = std::min(rows, cols);
  if (static_cast<std::int64_t>(values.size()) != p) {
    throw std::invalid_argument("one value per short side");
  }
  Random random(seed);
  const std::vector<double> u = orthonormal(rows, p, random);
  const std::vector<double> v = orthonormal(cols, p, random);
  FloatMatrix matrix{rows, cols, std::vector<float>(static_cast<std::size_t>(rows * cols))};
  std::vector<double> row(static_cast<std::size_t>(cols));
  for (std::int64_t r = 0; r < rows; ++r) {
    std::fill(row.begin(), row.end(), 0.0);
    for (std::int64_t k = 0; k < p; ++k) {
      const double weight =
          u[static_cast<std::size_t>(k * rows + r)] * values[static_cast<std::size_t>(k)];
      const double* const column = v.data() + k * cols;
      for (std::int64_t c = 0; c < cols; ++c) {
        row[static_cast<std::size_t>(c)] += weight * column[c];
      }
    }
    for (std::int64_t c = 0; c < cols; ++c) {
      matrix.at(r, c) = static_cast<float>(row[static_cast<std::size_t>(c)]);
    }
  }
  return matrix;
}

FloatMatrix gaussian_matrix(std::int64_t rows, std::int64_t cols, std::uint64_t seed,
                            double scale) {
  Random random(seed);
  FloatMatrix matrix{rows, cols, std::vector<float>(static_cast<std::size_t>(rows * cols))};
  for (float& value : matrix.values) {
    value = static_cast<float>(scale * random.normal());
  }
  return matrix;
}

FloatMatrix spiked_matrix(std::int64_t rows, std::int64_t cols, int spikes, double strength,
                          std::uint64_t seed) {
  FloatMatrix matrix = gaussian_matrix(rows, cols, seed);
  Random random(seed + 1);
  const std::vector<double> u = orthonormal(rows, spikes, random);
  const std::vector<double> v = orthonormal(cols, spikes, random);
  const double size = strength * std::sqrt(static_cast<double>(std::max(rows, cols)));
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < cols; ++c) {
      double sum = 0.0;
      for (int k = 0; k < spikes; ++k) {
        sum +=
            u[static_cast<std::size_t>(k * rows + r)] * v[static_cast<std::size_t>(k * cols + c)];
      }
      matrix.at(r, c) += static_cast<float>(size * sum);
    }
  }
  return matrix;
}

FloatMatrix transposed(const FloatMatrix& matrix) {
  FloatMatrix out{matrix.cols, matrix.rows, std::vector<float>(matrix.values.size())};
  for (std::int64_t r = 0; r < matrix.rows; ++r) {
    for (std::int64_t c = 0; c < matrix.cols; ++c) {
      out.at(c, r) = matrix.at(r, c);
    }
  }
  return out;
}

FloatMatrix rounded_to_bf16(const FloatMatrix& matrix) {
  FloatMatrix out = matrix;
  for (float& value : out.values) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof(bits));
    bits = (bits + 0x7FFFU + ((bits >> 16U) & 1U)) & 0xFFFF0000U;
    std::memcpy(&value, &bits, sizeof(bits));
  }
  return out;
}

FloatMatrix rounded_to_e4m3(const FloatMatrix& matrix) {
  constexpr std::int64_t kSide = 128;
  FloatMatrix out = matrix;
  for (std::int64_t top = 0; top < matrix.rows; top += kSide) {
    for (std::int64_t left = 0; left < matrix.cols; left += kSide) {
      const std::int64_t bottom = std::min(top + kSide, matrix.rows);
      const std::int64_t right = std::min(left + kSide, matrix.cols);
      float largest = 0.0F;
      for (std::int64_t r = top; r < bottom; ++r) {
        for (std::int64_t c = left; c < right; ++c) {
          largest = std::max(largest, std::abs(matrix.at(r, c)));
        }
      }
      if (largest == 0.0F) {
        continue;
      }
      int exponent = 0;
      std::frexp(largest, &exponent);  // largest < 2^exponent; 256 is the top binade of e4m3
      for (std::int64_t r = top; r < bottom; ++r) {
        for (std::int64_t c = left; c < right; ++c) {
          const float scaled = std::ldexp(matrix.at(r, c), 8 - exponent);
          int binade = 0;
          std::frexp(scaled, &binade);
          const int step = std::max(binade - 4, -9);  // 4 significant bits, subnormals at 2^-9
          out.at(r, c) = std::ldexp(std::nearbyint(std::ldexp(scaled, -step)), step - 8 + exponent);
        }
      }
    }
  }
  return out;
}

std::vector<double> reference_singular_values(const FloatMatrix& matrix) {
  // Row-major rows x cols is column-major cols x rows: the transpose, with the same values.
  const auto m = static_cast<lapack_int>(matrix.cols);
  const auto n = static_cast<lapack_int>(matrix.rows);
  const std::int64_t p = std::min(matrix.rows, matrix.cols);
  std::vector<double> a(matrix.values.begin(), matrix.values.end());
  std::vector<double> sigma(static_cast<std::size_t>(p));
  std::vector<lapack_int> integers(static_cast<std::size_t>(8 * p));
  double unused = 0.0;
  const lapack_int one = 1;
  lapack_int info = 0;
  double wanted = 0.0;
  lapack_int size = -1;
  LAPACK_dgesdd("N", &m, &n, a.data(), &m, sigma.data(), &unused, &one, &unused, &one, &wanted,
                &size, integers.data(), &info);
  check(info, "dgesdd size");
  std::vector<double> work(static_cast<std::size_t>(wanted) + 1);
  size = static_cast<lapack_int>(work.size());
  LAPACK_dgesdd("N", &m, &n, a.data(), &m, sigma.data(), &unused, &one, &unused, &one, work.data(),
                &size, integers.data(), &info);
  check(info, "dgesdd");
  return sigma;
}

std::vector<NamedMatrix> spectrum_suite() {
  std::vector<NamedMatrix> suite;
  const auto add = [&](std::string name, bool clustered, FloatMatrix matrix) {
    suite.push_back({std::move(name), clustered, std::move(matrix)});
  };
  std::uint64_t seed = 1;
  for (const double condition : {10.0, 1e3, 1e6}) {
    for (const int mode : {1, 2, 3, 4, 5, 6, -1, -2, -3, -4, -5, -6}) {
      const bool wide = seed % 2 == 0;
      const std::int64_t p = 60 + static_cast<std::int64_t>(seed);
      const std::int64_t n = 2 * p + 17;
      const bool clustered = std::abs(mode) <= 2 || std::abs(mode) == 5;
      add("mode " + std::to_string(mode) + " condition " + std::to_string(condition), clustered,
          matrix_with_spectrum(wide ? p : n, wide ? n : p, dlatm1_values(mode, condition, p, seed),
                               seed + 100));
      ++seed;
    }
  }
  for (const double condition : {3.0, 30.0, 90.0, 300.0, 1e4, 1e6}) {
    add("geometric " + std::to_string(condition), false,
        matrix_with_spectrum(300, 120, dlatm1_values(3, condition, 120, 1), 7));
  }
  std::vector<double> values(150);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = 1.0 / std::sqrt(1.0 + static_cast<double>(i) / 16.0);
  }
  add("power law", false, matrix_with_spectrum(150, 500, values, 8));
  for (std::size_t i = 100; i < values.size(); ++i) {
    values[i] = 0.0;
  }
  add("rank 100 of 150", false, matrix_with_spectrum(400, 150, values, 9));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = i < 50 ? 1.0 : i < 100 ? 0.9 : 1e-3;
  }
  add("three clusters", true, matrix_with_spectrum(150, 330, values, 10));
  add("noise 200 x 700", false, gaussian_matrix(200, 700, 11));
  add("noise 700 x 200", false, gaussian_matrix(700, 200, 12));
  add("noise 180 x 180", false, gaussian_matrix(180, 180, 13));
  add("noise 181 x 180", false, gaussian_matrix(181, 180, 14));
  add("spiked", false, spiked_matrix(160, 560, 8, 3.0, 15));
  add("noise as bf16", false, rounded_to_bf16(gaussian_matrix(150, 520, 16)));
  add("noise as e4m3", false, rounded_to_e4m3(gaussian_matrix(520, 150, 17)));
  add("geometric 1e4 as e4m3", false,
      rounded_to_e4m3(matrix_with_spectrum(150, 520, dlatm1_values(3, 1e4, 150, 1), 18)));
  add("geometric 1e4 as bf16", false,
      rounded_to_bf16(matrix_with_spectrum(520, 150, dlatm1_values(3, 1e4, 150, 1), 19)));
  return suite;
}

std::vector<NamedMatrix> small_spectrum_suite() {
  std::vector<NamedMatrix> suite;
  const auto add = [&](std::string name, bool clustered, FloatMatrix matrix) {
    suite.push_back({std::move(name), clustered, std::move(matrix)});
  };
  for (const double condition : {3.0, 18.0, 1e4}) {
    add("geometric " + std::to_string(condition), false,
        matrix_with_spectrum(condition < 10.0 ? 65 : 150, condition < 10.0 ? 150 : 65,
                             dlatm1_values(3, condition, 65, 1), 7));
  }
  add("one large, condition 1000", true,
      matrix_with_spectrum(50, 140, dlatm1_values(1, 1e3, 50, 1), 10));
  std::vector<double> values(47);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = 1.0 / std::sqrt(1.0 + static_cast<double>(i) / 4.0);
  }
  add("power law", false, matrix_with_spectrum(47, 170, values, 8));
  std::fill(values.begin() + 30, values.end(), 0.0);
  add("rank 30 of 47", false, matrix_with_spectrum(130, 47, values, 9));
  add("noise 31 x 300", false, gaussian_matrix(31, 300, 11));
  add("noise 300 x 33", false, gaussian_matrix(300, 33, 12));
  add("noise 64 x 64", false, gaussian_matrix(64, 64, 13));
  add("spiked", false, spiked_matrix(70, 210, 4, 3.0, 15));
  add("geometric 1e4 as e4m3", false,
      rounded_to_e4m3(matrix_with_spectrum(60, 200, dlatm1_values(3, 1e4, 60, 1), 18)));
  return suite;
}

}  // namespace vindex::test
