// Owns the sums over both matrices.
#include "gram_cka.hpp"

#include "cka.hpp"

#include "core/constants.hpp"
#include <vindex/error.hpp>

#include <cmath>
#include <cstddef>

namespace vindex::statistics {

namespace {

/// What is added to row and column i of the matrix to U-centre it.
std::vector<double> u_terms(std::span<const float> gram, std::int64_t rows) {
  const auto n = static_cast<std::size_t>(rows);
  double trace = 0.0;
  for (std::size_t i = 0; i < n; ++i) {
    trace += gram[i * n + i];
  }
  std::vector<double> terms(n);
  for (std::size_t i = 0; i < n; ++i) {
    terms[i] = u_centring_term(rows, gram[i * n + i], trace);
  }
  return terms;
}

}  // namespace

std::vector<double> centred_gram(std::span<const double> vectors, std::int64_t rows) {
  expects(rows > 0 && vectors.size() % static_cast<std::size_t>(rows) == 0,
          "centred_gram: whole rows");
  const auto n = static_cast<std::size_t>(rows);
  const std::size_t width = vectors.size() / n;
  std::vector<double> centred(vectors.begin(), vectors.end());
  for (std::size_t j = 0; j < width; ++j) {
    double mean = 0.0;
    for (std::size_t i = 0; i < n; ++i) {
      mean += centred[i * width + j];
    }
    mean /= static_cast<double>(rows);
    for (std::size_t i = 0; i < n; ++i) {
      centred[i * width + j] -= mean;
    }
  }
  std::vector<double> gram(n * n);
  constexpr std::size_t kLanes = 8;  // independent sums, which a processor adds at once
  for (std::size_t i = 0; i < n; ++i) {
    const double* const left = centred.data() + i * width;
    for (std::size_t j = 0; j <= i; ++j) {
      const double* const right = centred.data() + j * width;
      double lanes[kLanes] = {};
      std::size_t k = 0;
      for (; k + kLanes <= width; k += kLanes) {
        for (std::size_t lane = 0; lane < kLanes; ++lane) {
          lanes[lane] += left[k + lane] * right[k + lane];
        }
      }
      double sum = 0.0;
      for (; k < width; ++k) {
        sum += left[k] * right[k];
      }
      for (const double lane : lanes) {
        sum += lane;
      }
      gram[i * n + j] = gram[j * n + i] = sum;
    }
  }
  return gram;
}

double permuted_cka_deviation(std::int64_t rows) {
  const auto n = static_cast<double>(rows);
  return rows < kMinCkaRows ? kNaN : std::sqrt(2.0 / (n * (n - 3.0)));
}

GramCka gram_cka(std::span<const float> left, std::span<const float> right, std::int64_t rows) {
  const auto n = static_cast<std::size_t>(rows);
  expects(left.size() == n * n && right.size() == n * n, "gram_cka: square matrices of the rows");
  double product = 0.0;
  double left_square = 0.0;
  double right_square = 0.0;
  for (std::size_t i = 0; i < n * n; ++i) {
    const double a = left[i];
    const double b = right[i];
    product += a * b;
    left_square += a * a;
    right_square += b * b;
  }
  GramCka out = {kNaN, alignment(product, left_square, right_square)};
  if (rows < kMinCkaRows) {
    return out;
  }
  const std::vector<double> left_terms = u_terms(left, rows);
  const std::vector<double> right_terms = u_terms(right, rows);
  product = left_square = right_square = 0.0;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const double a = left[i * n + j] + left_terms[i] + left_terms[j];
      const double b = right[i * n + j] + right_terms[i] + right_terms[j];
      product += a * b;
      left_square += a * a;
      right_square += b * b;
    }
  }
  out.unbiased = alignment(product, left_square, right_square);
  return out;
}

}  // namespace vindex::statistics
