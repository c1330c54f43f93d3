// Closed forms of the edits, and what is refused.
#include "edit_product.hpp"

#include "commands/edit/matrix_edit.hpp"
#include "core/process/stop.hpp"
#include "tests/support/expect_error.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <stop_token>
#include <utility>

namespace vindex::edit::low_rank_edit_test {
namespace {

using testing::error_of;

Matrix noise(std::int64_t rows, std::int64_t cols, unsigned seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  Matrix out{rows, cols, std::vector<double>(static_cast<std::size_t>(rows * cols))};
  for (double& value : out.values) {
    value = normal(random);
  }
  return out;
}

TEST(LowRankEdit, ADeletionOfAnAxisIsItsColumnOrItsRow) {
  // W = [[1 2] [3 4]]: right of e_2 takes column 2, left of e_2 takes row 2.
  const std::vector<double> axis = {0.0, 1.0};
  const LowRankEdit right = deletion(Side::kRight, axis, std::vector<double>{2.0, 4.0}, 1.0);
  EXPECT_EQ(product(right), (std::vector<double>{0, -2, 0, -4}));
  const LowRankEdit left = deletion(Side::kLeft, axis, std::vector<double>{3.0, 4.0}, 0.5);
  EXPECT_EQ(product(left), (std::vector<double>{0, 0, -1.5, -2}));
  EXPECT_EQ(spectrum_of(right).rank, 1);
  EXPECT_NEAR(spectrum_of(right).norm, std::sqrt(20.0), 1e-12);
}

TEST(LowRankEdit, AnInsertionAnswersItsKeyAndNothingAcrossIt) {
  const LowRankEdit edit =
      insertion(std::vector<double>{3.0, 4.0}, std::vector<double>{1.0, 0.0, -2.0});
  const std::vector<double> delta = product(edit);
  EXPECT_NEAR(delta[0] * 3 + delta[1] * 4, 1.0, 1e-6);
  EXPECT_NEAR(delta[4] * 3 + delta[5] * 4, -2.0, 1e-6);
  EXPECT_NEAR(delta[0] * 4 - delta[1] * 3, 0.0, 1e-6);
}

TEST(LowRankEdit, MemitOfOneKeyIsAnInsertionShrunkByTheRidge) {
  const Matrix key{3, 1, {1.0, 2.0, 2.0}};
  const Matrix value{2, 1, {9.0, -9.0}};
  MemitCondition condition;
  const std::vector<double> delta = product(memit(key, value, nullptr, 1.0, condition));
  // (k . k + ridge) = 10
  const std::vector<double> wanted = {0.9, 1.8, 1.8, -0.9, -1.8, -1.8};
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_NEAR(delta[i], wanted[i], 1e-6);
  }
  EXPECT_EQ(condition.keys, 1.0);
}

TEST(LowRankEdit, MemitWithADiagonalCovarianceByHand) {
  // C = diag(1, 4): k = e_1 + e_2 has K^T C^-1 = (1, 1/4), K^T C^-1 K = 5/4.
  const Matrix key{2, 1, {1.0, 1.0}};
  const Matrix value{1, 1, {5.0}};
  const Matrix covariance{2, 2, {1.0, 0.0, 0.0, 4.0}};
  MemitCondition condition;
  const std::vector<double> delta = product(memit(key, value, &covariance, 0.0, condition));
  EXPECT_NEAR(delta[0], 4.0, 1e-6);
  EXPECT_NEAR(delta[1], 1.0, 1e-6);
  EXPECT_NEAR(condition.covariance, 4.0, 1e-9);
}

TEST(LowRankEdit, MemitMeetsEveryKeyWithoutARidge) {
  const Matrix keys = noise(40, 7, 1);
  const Matrix values = noise(5, 7, 2);
  MemitCondition condition;
  const LowRankEdit edit = memit(keys, values, nullptr, 0.0, condition);
  const std::vector<double> delta = product(edit);
  for (std::size_t i = 0; i < 5; ++i) {
    for (std::size_t k = 0; k < 7; ++k) {
      double sum = 0.0;
      for (std::size_t j = 0; j < 40; ++j) {
        sum += delta[i * 40 + j] * keys.values[j * 7 + k];
      }
      EXPECT_NEAR(sum, values.values[i * 7 + k], 1e-5);
    }
  }
  EXPECT_EQ(spectrum_of(edit).rank, 5);  // five outputs bound it
  EXPECT_GT(condition.keys, 1.0);
}

TEST(LowRankEdit, WhatCannotBeSolvedIsSaid) {
  MemitCondition condition;
  const Matrix twice{2, 2, {1.0, 1.0, 2.0, 2.0}};
  const Matrix values{1, 2, {1.0, 2.0}};
  EXPECT_EQ(error_of([&] { memit(twice, values, nullptr, 0.0, condition); }), "E-EDIT-SINGULAR");
  EXPECT_EQ(error_of([&] { memit(twice, values, nullptr, 1e-4, condition); }), "none");
  EXPECT_GT(condition.keys, 1e4);
  const Matrix indefinite{2, 2, {1.0, 2.0, 2.0, 1.0}};
  EXPECT_EQ(error_of([&] { memit(twice, values, &indefinite, 1.0, condition); }),
            "E-EDIT-SINGULAR");
  const Matrix lopsided{2, 2, {1.0, 0.5, 0.0, 1.0}};
  EXPECT_EQ(error_of([&] { memit(twice, values, &lopsided, 1.0, condition); }), "E-EDIT-VALUES");
  const Matrix one{1, 1, {1.0}};
  EXPECT_EQ(error_of([&] { memit(twice, one, nullptr, 1.0, condition); }), "E-EDIT-SHAPE");
}

/// By Gauss and Jordan, n x n.
std::vector<double> inverse(std::vector<double> matrix, std::size_t n) {
  std::vector<double> out(n * n);
  for (std::size_t i = 0; i < n; ++i) {
    out[i * n + i] = 1.0;
  }
  for (std::size_t k = 0; k < n; ++k) {  // positive definite: no pivots
    const double pivot = matrix[k * n + k];
    for (std::size_t j = 0; j < n; ++j) {
      matrix[k * n + j] /= pivot;
      out[k * n + j] /= pivot;
    }
    for (std::size_t i = 0; i < n; ++i) {
      const double factor = matrix[i * n + k];
      for (std::size_t j = 0; i != k && j < n; ++j) {
        matrix[i * n + j] -= factor * matrix[k * n + j];
        out[i * n + j] -= factor * out[k * n + j];
      }
    }
  }
  return out;
}

/// m x k times k x n.
std::vector<double> times(const std::vector<double>& a, const std::vector<double>& b,
                          std::size_t k) {
  const std::size_t m = a.size() / k;
  const std::size_t n = b.size() / k;
  std::vector<double> out(m * n);
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t l = 0; l < k; ++l) {
      for (std::size_t j = 0; j < n; ++j) {
        out[i * n + j] += a[i * k + l] * b[l * n + j];
      }
    }
  }
  return out;
}

std::vector<double> transposed(const Matrix& matrix) {
  std::vector<double> out(matrix.values.size());
  for (std::int64_t i = 0; i < matrix.rows; ++i) {
    for (std::int64_t j = 0; j < matrix.cols; ++j) {
      out[static_cast<std::size_t>(j * matrix.rows + i)] =
          matrix.values[static_cast<std::size_t>(i * matrix.cols + j)];
    }
  }
  return out;
}

TEST(LowRankEdit, MemitOfMoreKeysThanInputsIsTheSameFormulaInFewFactors) {
  constexpr std::size_t kIn = 6;
  constexpr std::size_t kKeys = 20;
  const Matrix keys = noise(kIn, kKeys, 1);
  const Matrix values = noise(9, kKeys, 2);
  const Matrix samples = noise(kIn, 50, 3);
  const Matrix covariance{kIn, kIn, times(samples.values, transposed(samples), 50)};
  const std::vector<double> inverse_covariance = inverse(covariance.values, kIn);
  const std::vector<double> half = times(transposed(keys), inverse_covariance, kIn);
  std::vector<double> normal = times(half, keys.values, kIn);
  for (std::size_t i = 0; i < kKeys; ++i) {
    normal[i * (kKeys + 1)] += 0.1;
  }
  const std::vector<double> wanted =
      times(times(values.values, inverse(normal, kKeys), kKeys), half, kKeys);
  MemitCondition condition;
  const LowRankEdit edit = memit(keys, values, &covariance, 0.1, condition);
  EXPECT_EQ(edit.rank, 6);
  const std::vector<double> delta = product(edit);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_NEAR(delta[i], wanted[i], 1e-6);
  }
  // The smallest eigenvalue is the ridge's.
  MemitCondition half_ridge;
  memit(keys, values, &covariance, 0.05, half_ridge);
  EXPECT_NEAR(half_ridge.keys / condition.keys, 2.0, 0.2);
  EXPECT_EQ(error_of([&] { memit(keys, values, &covariance, 0.0, condition); }), "E-EDIT-SINGULAR");
}

TEST(LowRankEdit, MoreRankThanTheShortSideIsTheProductItself) {
  for (const auto& [rows, cols] : {std::pair<std::int64_t, std::int64_t>{5, 8}, {8, 5}, {4, 4}}) {
    LowRankEdit edit{rows, cols, 40, {}, {}};
    for (const double value : noise(40, cols, 4).values) {
      edit.a.push_back(static_cast<float>(value));
    }
    for (const double value : noise(rows, 40, 5).values) {
      edit.b.push_back(static_cast<float>(value));
    }
    const LowRankEdit few = bounded(edit);
    EXPECT_EQ(few.rank, std::min(rows, cols));
    const std::vector<double> wanted = product(edit);
    const std::vector<double> got = product(few);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      ASSERT_EQ(got[i], static_cast<double>(static_cast<float>(wanted[i])));
    }
    EXPECT_NEAR(spectrum_of(few).norm, spectrum_of(edit).norm, 1e-5);
    EXPECT_EQ(bounded(few).a, few.a);
  }
}

TEST(LowRankEdit, TheConditionOfACovarianceIsThatOfItsSpectrum) {
  // Two mixed inputs of every size: no diagonal of a factor tells how small the smallest is.
  for (const double largest : {9.0, 1e12}) {
    constexpr std::size_t kIn = 16;
    const Matrix draws = noise(kIn, kIn, 6);
    std::vector<double> basis = draws.values;  // rows made orthonormal
    for (std::size_t i = 0; i < kIn; ++i) {
      for (int pass = 0; pass < 2; ++pass) {
        for (std::size_t j = 0; j < i; ++j) {
          double inner = 0.0;
          for (std::size_t k = 0; k < kIn; ++k) {
            inner += basis[i * kIn + k] * basis[j * kIn + k];
          }
          for (std::size_t k = 0; k < kIn; ++k) {
            basis[i * kIn + k] -= inner * basis[j * kIn + k];
          }
        }
      }
      double norm = 0.0;
      for (std::size_t k = 0; k < kIn; ++k) {
        norm += basis[i * kIn + k] * basis[i * kIn + k];
      }
      for (std::size_t k = 0; k < kIn; ++k) {
        basis[i * kIn + k] /= std::sqrt(norm);
      }
    }
    Matrix covariance{kIn, kIn, std::vector<double>(kIn * kIn)};
    for (std::size_t e = 0; e < kIn; ++e) {
      const double value = std::pow(largest, static_cast<double>(e) / (kIn - 1));
      for (std::size_t i = 0; i < kIn; ++i) {
        for (std::size_t j = 0; j < kIn; ++j) {
          covariance.values[i * kIn + j] += value * basis[e * kIn + i] * basis[e * kIn + j];
        }
      }
    }
    MemitCondition condition;
    memit(noise(kIn, 2, 7), noise(3, 2, 8), &covariance, 1.0, condition);
    EXPECT_GT(condition.covariance, 0.9 * largest);
    EXPECT_LT(condition.covariance, kIn * largest);
  }
}

TEST(LowRankEdit, ARidgeIsAFiniteNumber) {
  MemitCondition condition;
  const Matrix one{1, 1, {1.0}};
  for (const double ridge :
       {-1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    EXPECT_EQ(error_of([&] { memit(one, one, nullptr, ridge, condition); }), "E-USAGE");
  }
}

TEST(LowRankEdit, ADirectionHasALength) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(error_of([] { unit_vector(std::vector<double>{0.0, 0.0}, "v"); }), "E-EDIT-DIRECTION");
  EXPECT_EQ(error_of([&] { unit_vector(std::vector<double>{1.0, nan}, "v"); }), "E-EDIT-DIRECTION");
  const std::vector<double> huge = unit_vector(std::vector<double>{3e200, 4e200}, "v");
  EXPECT_NEAR(huge[0], 0.6, 1e-15);
  EXPECT_NEAR(huge[1], 0.8, 1e-15);
}

TEST(LowRankEdit, TheSpectrumIsThatOfTheProduct) {
  // b = [e_1 2 e_2 0], a = [3 e_1; e_2; e_1]: values 3 and 2.
  LowRankEdit edit{2, 3, 3, {3, 0, 0, 0, 1, 0, 1, 0, 0}, {1, 0, 0, 0, 2, 0}};
  const EditSpectrum spectrum = spectrum_of(edit);
  ASSERT_EQ(spectrum.sigma.size(), 2U);
  EXPECT_NEAR(spectrum.sigma[0], 3.0, 1e-12);
  EXPECT_NEAR(spectrum.sigma[1], 2.0, 1e-12);
  EXPECT_EQ(spectrum.rank, 2);
  EXPECT_NEAR(spectrum.norm, std::sqrt(13.0), 1e-12);
  EXPECT_EQ(spectrum_of(scaled(edit, 0.0)).rank, 0);
}

// Squares in float64 lose what is below 1e-8 of the largest.
TEST(LowRankEdit, SmallValuesOfAnEditAreNotRounding) {
  const LowRankEdit edit{3, 2, 2, {1, 1e-9F, 1, -1e-9F}, {1, 1, 1, 1, 2, 0}};
  // b a = [2, 0; 2, 0; 2, 2e-9]: values sqrt(12) and 2e-9 sqrt(2 / 3).
  const EditSpectrum spectrum = spectrum_of(edit);
  ASSERT_EQ(spectrum.sigma.size(), 2U);
  EXPECT_NEAR(spectrum.sigma[0], std::sqrt(12.0), 1e-14);
  EXPECT_NEAR(spectrum.sigma[1], 2.0 * static_cast<double>(1e-9F) * std::sqrt(2.0 / 3.0), 1e-13);
}

TEST(LowRankEdit, AStopThatWasAskedForEndsEverySolve) {
  std::stop_source source;
  source.request_stop();
  const std::stop_token stop = source.get_token();
  const Matrix values = noise(3, 4, 1);
  MemitCondition condition;
  for (const std::int64_t in : {2, 6}) {  // more keys than inputs, and fewer
    const Matrix keys = noise(in, 4, 2);
    EXPECT_THROW(memit(keys, values, nullptr, 1.0, condition, stop), Stopped);
  }
  const LowRankEdit edit{2, 2, 3, {1, 2, 3, 4, 5, 6}, {1, 0, 1, 0, 1, 0}};
  EXPECT_THROW((void)bounded(edit, stop), Stopped);
  EXPECT_THROW((void)spectrum_of(edit, stop), Stopped);
}

}  // namespace
}  // namespace vindex::edit::low_rank_edit_test
