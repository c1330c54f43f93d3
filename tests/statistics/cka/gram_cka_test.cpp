// CKA of Gram matrices beside sums over features, and its null beside all orders.
#include "statistics/cka/gram_cka.hpp"

#include "statistics/cka/cka.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace vindex::statistics::gram_cka_test {
namespace {

/// [rows, width] of numbers about `shift`, the same in every run.
std::vector<double> drawn(std::size_t rows, std::size_t width, double shift, std::uint64_t state) {
  std::vector<double> out(rows * width);
  for (double& value : out) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    value = shift + static_cast<double>(state >> 33U) * 0x1p-30 - 1.0;
  }
  return out;
}

std::vector<float> floats(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

TEST(GramCka, IsThatOfTheFeatures) {
  constexpr std::size_t kRows = 11;
  const std::vector<double> x = drawn(kRows, 5, 40.0, 1);
  std::vector<double> y = drawn(kRows, 9, -3.0, 2);
  for (std::size_t i = 0; i < kRows; ++i) {
    y[i * 9] += 2.0 * x[i * 5];  // they share a direction
  }
  // By the sums of cka.hpp, from centred features in plain loops.
  const auto centred = [](std::vector<double> values, std::size_t width) {
    for (std::size_t j = 0; j < width; ++j) {
      double mean = 0.0;
      for (std::size_t i = 0; i < kRows; ++i) {
        mean += values[i * width + j] / kRows;
      }
      for (std::size_t i = 0; i < kRows; ++i) {
        values[i * width + j] -= mean;
      }
    }
    return values;
  };
  const auto cross = [](const std::vector<double>& a, std::size_t p, const std::vector<double>& b,
                        std::size_t q) {
    double squares = 0.0;
    for (std::size_t j = 0; j < p; ++j) {
      for (std::size_t k = 0; k < q; ++k) {
        double sum = 0.0;
        for (std::size_t i = 0; i < kRows; ++i) {
          sum += a[i * p + j] * b[i * q + k];
        }
        squares += sum * sum;
      }
    }
    return squares;
  };
  const auto norm = [](const std::vector<double>& a, std::size_t p, std::size_t i) {
    return std::inner_product(a.begin() + static_cast<std::ptrdiff_t>(i * p),
                              a.begin() + static_cast<std::ptrdiff_t>((i + 1) * p),
                              a.begin() + static_cast<std::ptrdiff_t>(i * p), 0.0);
  };
  const std::vector<double> cx = centred(x, 5);
  const std::vector<double> cy = centred(y, 9);
  const auto sums = [&](const std::vector<double>& a, std::size_t p, const std::vector<double>& b,
                        std::size_t q) {
    KernelSums out{.rows = kRows};
    for (std::size_t i = 0; i < kRows; ++i) {
      out.trace_left += norm(a, p, i);
      out.trace_right += norm(b, q, i);
      out.diagonal += norm(a, p, i) * norm(b, q, i);
    }
    return u_centred_product(out, cross(a, p, b, q));
  };
  const double wanted = alignment(sums(cx, 5, cy, 9), sums(cx, 5, cx, 5), sums(cy, 9, cy, 9));
  const double biased = alignment(cross(cx, 5, cy, 9), cross(cx, 5, cx, 5), cross(cy, 9, cy, 9));
  const std::vector<double> k = centred_gram(x, kRows);
  const std::vector<double> l = centred_gram(y, kRows);
  const GramCka found = gram_cka(floats(k), floats(l), kRows);
  EXPECT_NEAR(found.unbiased, wanted, 2e-6);
  EXPECT_NEAR(found.biased, biased, 2e-6);
  EXPECT_GT(found.unbiased, 0.2);
  const GramCka same = gram_cka(floats(k), floats(k), kRows);
  EXPECT_NEAR(same.unbiased, 1.0, 1e-12);
  EXPECT_NEAR(same.biased, 1.0, 1e-12);
  for (std::size_t i = 0; i < kRows; ++i) {
    EXPECT_NEAR(k[i * kRows + i], norm(cx, 5, i), 1e-9);
    EXPECT_NEAR(std::accumulate(k.begin() + static_cast<std::ptrdiff_t>(i * kRows),
                                k.begin() + static_cast<std::ptrdiff_t>((i + 1) * kRows), 0.0),
                0.0, 1e-9);
  }
}

TEST(GramCka, ItsNullIsExactOverAllOrders) {
  constexpr std::size_t kRows = 6;
  const std::vector<double> k = centred_gram(drawn(kRows, 4, 0.0, 3), kRows);
  const std::vector<double> l = centred_gram(drawn(kRows, 3, 0.0, 4), kRows);
  std::vector<std::size_t> order(kRows);
  std::iota(order.begin(), order.end(), std::size_t{0});
  double sum = 0.0;
  double squares = 0.0;
  double count = 0.0;
  do {
    std::vector<double> permuted(l.size());
    for (std::size_t i = 0; i < kRows; ++i) {
      for (std::size_t j = 0; j < kRows; ++j) {
        permuted[i * kRows + j] = l[order[i] * kRows + order[j]];
      }
    }
    const double cka = gram_cka(floats(k), floats(permuted), kRows).unbiased;
    sum += cka;
    squares += cka * cka;
    ++count;
  } while (std::next_permutation(order.begin(), order.end()));
  EXPECT_EQ(count, 720.0);
  EXPECT_NEAR(sum / count, 0.0, 1e-6);
  EXPECT_NEAR(std::sqrt(squares / count), permuted_cka_deviation(kRows), 1e-6);
}

TEST(GramCka, WhatDoesNotVaryHasNone) {
  const std::vector<float> none(25, 0.0F);
  const std::vector<float> some = floats(centred_gram(drawn(5, 3, 0.0, 5), 5));
  EXPECT_TRUE(std::isnan(gram_cka(none, some, 5).unbiased));
  EXPECT_TRUE(std::isnan(gram_cka(none, some, 5).biased));
  const std::vector<float> few = floats(centred_gram(drawn(3, 3, 0.0, 6), 3));
  EXPECT_TRUE(std::isnan(gram_cka(few, few, 3).unbiased));
  EXPECT_NEAR(gram_cka(few, few, 3).biased, 1.0, 1e-12);
  EXPECT_TRUE(std::isnan(permuted_cka_deviation(3)));
}

}  // namespace
}  // namespace vindex::statistics::gram_cka_test
