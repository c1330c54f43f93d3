// Owns making each law from its seed, its storage in an encoding, and the comparison of a stated
// error with the real one.
#include "error_laws.hpp"

#include <algorithm>
#include <cmath>

namespace vindex::test {
namespace {

/// Early enough to lie behind the first group of rows that a choice of precision looks at, and
/// within the matrix.
std::int64_t first_outlier(std::int64_t n) { return std::min<std::int64_t>(1100, n / 2); }

void scale_row(FloatMatrix& matrix, std::int64_t row, double factor) {
  for (std::int64_t c = 0; c < matrix.cols; ++c) {
    matrix.at(row, c) *= static_cast<float>(factor);
  }
}

void scale_column(FloatMatrix& matrix, std::int64_t column, double factor) {
  for (std::int64_t r = 0; r < matrix.rows; ++r) {
    matrix.at(r, column) *= static_cast<float>(factor);
  }
}

FloatMatrix noise(std::int64_t n, std::int64_t p, std::uint64_t seed) {
  return gaussian_matrix(n, p, seed, 0.02);
}

FloatMatrix of_one_sign(std::int64_t n, std::int64_t p, std::uint64_t seed) {
  FloatMatrix matrix = noise(n, p, seed);
  for (float& value : matrix.values) {
    value = std::abs(value);
  }
  return matrix;
}

FloatMatrix around_one(std::int64_t n, std::int64_t p, std::uint64_t seed, float spread) {
  FloatMatrix matrix = gaussian_matrix(n, p, seed);
  for (float& value : matrix.values) {
    value = 1.0F + spread * value;
  }
  return matrix;
}

/// `count` rows, `step` apart, from 100 times the others down to 6 times.
FloatMatrix with_rows(std::int64_t n, std::int64_t p, std::uint64_t seed, std::int64_t count,
                      std::int64_t step) {
  FloatMatrix matrix = noise(n, p, seed);
  for (std::int64_t k = 0; k < count; ++k) {
    const double share = count > 1 ? static_cast<double>(k) / static_cast<double>(count - 1) : 0.0;
    scale_row(matrix, (first_outlier(n) + k * step) % n, 100.0 * std::pow(0.06, share));
  }
  return matrix;
}

/// Signs of one magnitude but for 7 rows: all squares of a row are equal and round alike, products
/// of two columns do not.
FloatMatrix of_one_magnitude(std::int64_t n, std::int64_t p, std::uint64_t seed) {
  FloatMatrix matrix = noise(n, p, seed);
  for (float& value : matrix.values) {
    value = std::copysign(0.02F * (1.0F + 5.0F / 128.0F), value);
  }
  for (std::int64_t k = 0; k < 7; ++k) {
    scale_row(matrix, first_outlier(n) + k,
              6.0 * std::pow(100.0 / 6.0, static_cast<double>(k) / 6.0));
  }
  return matrix;
}

FloatMatrix with_law(std::int64_t n, std::int64_t p, std::uint64_t seed,
                     double (*value)(double share, double index)) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < p; ++i) {
    const auto index = static_cast<double>(i);
    values.push_back(value(index / std::max(static_cast<double>(p - 1), 1.0), index));
  }
  return matrix_with_spectrum(n, p, values, seed);
}

/// Kahan's triangle on top of zeros; columns that fall like its sines.
FloatMatrix kahan(std::int64_t n, std::int64_t p, std::uint64_t /*seed*/) {
  constexpr double kAngle = 1.3;
  FloatMatrix matrix{n, p, std::vector<float>(static_cast<std::size_t>(n * p), 0.0F)};
  double scale = 1.0;
  for (std::int64_t r = 0; r < p; ++r, scale *= std::sin(kAngle)) {
    matrix.at(r, r) = static_cast<float>(scale);
    for (std::int64_t c = r + 1; c < p; ++c) {
      matrix.at(r, c) = static_cast<float>(-scale * std::cos(kAngle));
    }
  }
  return matrix;
}

}  // namespace

const std::vector<ErrorLaw>& error_laws() {
  using Size = std::int64_t;
  using Seed = std::uint64_t;
  static const std::vector<ErrorLaw> laws = {
      {"noise", noise},
      {"one magnitude, 7 outlier rows", of_one_magnitude},
      {"one sign: abs(noise)", of_one_sign},
      {"one sign: 1 + noise/10",
       [](Size n, Size p, Seed seed) { return around_one(n, p, seed, 0.1F); }},
      {"one sign: 1 + noise/100",
       [](Size n, Size p, Seed seed) { return around_one(n, p, seed, 0.01F); }},
      {"one outlier row", [](Size n, Size p, Seed seed) { return with_rows(n, p, seed, 1, 1); }},
      {"7 outlier rows together",
       [](Size n, Size p, Seed seed) { return with_rows(n, p, seed, 7, 1); }},
      {"7 outlier rows apart",
       [](Size n, Size p, Seed seed) { return with_rows(n, p, seed, 7, n / 9); }},
      {"64 outlier rows", [](Size n, Size p, Seed seed) { return with_rows(n, p, seed, 64, 3); }},
      {"one outlier column",
       [](Size n, Size p, Seed seed) {
         FloatMatrix matrix = noise(n, p, seed);
         scale_column(matrix, p / 3, 100.0);
         return matrix;
       }},
      {"graded columns, 1e3",
       [](Size n, Size p, Seed seed) {
         FloatMatrix matrix = noise(n, p, seed);
         for (Size c = 0; c < p; ++c) {
           scale_column(matrix, c, std::pow(1e-3, static_cast<double>(c) / static_cast<double>(p)));
         }
         return matrix;
       }},
      {"columns in equal pairs",
       [](Size n, Size p, Seed seed) {
         FloatMatrix matrix = noise(n, p, seed);
         for (Size r = 0; r < n; ++r) {
           for (Size c = 1; c < p; c += 2) {
             matrix.at(r, c) = matrix.at(r, c - 1) * (1.0F + 1e-2F * matrix.at(r, c));
           }
         }
         return matrix;
       }},
      {"two clusters, 0.1",
       [](Size n, Size p, Seed seed) {
         return with_law(n, p, seed, [](double share, double) { return share < 0.5 ? 1.0 : 0.1; });
       }},
      {"1/i",
       [](Size n, Size p, Seed seed) {
         return with_law(n, p, seed, [](double, double index) { return 1.0 / (1.0 + index); });
       }},
      {"geometric, 1e4",
       [](Size n, Size p, Seed seed) {
         return with_law(n, p, seed, [](double share, double) { return std::pow(1e-4, share); });
       }},
      {"Kahan", kahan},
      {"integers, -8 to 7", [](Size n, Size p, Seed seed) {
         FloatMatrix matrix = gaussian_matrix(n, p, seed, 3.0);
         for (float& value : matrix.values) {
           value = 0.0078125F * std::clamp(std::nearbyint(value), -8.0F, 7.0F);
         }
         return matrix;
       }}};
  return laws;
}

const std::vector<LawEncoding>& law_encodings() {
  static const std::vector<LawEncoding> encodings = {
      {"F32", decode::plain_encoding(decode::ElementType::kF32)},
      {"BF16", decode::plain_encoding(decode::ElementType::kBF16)},
      {"F16", decode::plain_encoding(decode::ElementType::kF16)},
      {"F8_E4M3", decode::fp8_block_encoding(128, 128)}};
  return encodings;
}

StoredLaw stored_law(const FloatMatrix& matrix, const decode::Encoding& encoding) {
  StoredLaw law{testing::encoded_weights(encoding, matrix.rows, matrix.cols, matrix.values),
                {matrix.rows, matrix.cols, {}}};
  law.decoded.values = law.stored.weights();
  return law;
}

LawError law_error(const std::vector<double>& sigma, const std::vector<double>& reference,
                   double sigma_error) {
  double error = 0.0;
  for (std::size_t i = 0; i < sigma.size(); ++i) {
    error = std::max(error, std::abs(sigma[i] - reference[i]));
  }
  const double promise = 50.0 * static_cast<double>(reference.size()) * 0x1p-52 * reference[0];
  return {.of_stated = error / sigma_error,
          .of_largest = error / reference[0],
          .of_strict = error / promise};
}

}  // namespace vindex::test
