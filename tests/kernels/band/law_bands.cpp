// Owns drawing the laws, turning them by random directions, and LAPACK's reduction to a band.
#include "law_bands.hpp"

#include "tests/kernels/tridiagonal/tridiagonal_reference.hpp"

#include <cblas.h>
#include <lapacke.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <stdexcept>

extern "C" void dsytrd_sy2sb_(const char* uplo, const int* n, const int* kd, double* a,
                              const int* lda, double* ab, const int* ldab, double* tau,
                              double* work, const int* lwork, int* info, std::size_t length);

namespace vindex::test {
namespace {

constexpr int kBandWidth = 32;

/// Singular values, descending from 1, of an n x p matrix of noise: the bidiagonal form has chi
/// distributed entries. Source: Dumitriu and Edelman, "Matrix models for beta ensembles" (2002).
std::vector<double> noise_values(std::int64_t p, std::int64_t n, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto chi = [&](std::int64_t degrees) {
    std::gamma_distribution<double> squares(0.5 * static_cast<double>(degrees), 2.0);
    return std::sqrt(squares(random));
  };
  Tridiagonal gram;
  double above = 0.0;
  for (std::int64_t i = 0; i < p; ++i) {
    const double diagonal = chi(n - i);
    const double beside = i + 1 < p ? chi(p - 1 - i) : 0.0;
    gram.diagonal.push_back(diagonal * diagonal + above * above);
    gram.off_diagonal.push_back(diagonal * beside);
    above = beside;
  }
  std::vector<double> values = values_of(gram);
  std::reverse(values.begin(), values.end());
  const double largest = values.front();
  for (double& value : values) {
    value = std::sqrt(std::max(value, 0.0) / largest);
  }
  return values;
}

std::vector<double> values_of_law(const std::string& law, std::int64_t p) {
  const std::size_t space = law.find(' ');
  const std::string kind = law.substr(0, space);
  const double condition = space == std::string::npos ? 0.0 : std::stod(law.substr(space));
  const auto count = static_cast<double>(p);
  std::vector<double> values;
  const auto fill = [&](auto&& value) {
    for (std::int64_t i = 0; i < p; ++i) {
      values.push_back(value(static_cast<double>(i)));
    }
  };
  if (kind == "noise") {
    const double root = (condition - 1.0) / (condition + 1.0);  // of p / n
    return noise_values(p, std::llround(count / (root * root)), 1);
  }
  if (kind == "power") {
    fill([&](double i) { return std::pow(i + 1.0, -std::log(condition) / std::log(count)); });
  } else if (kind == "geometric") {
    fill([&](double i) { return std::pow(condition, -i / (count - 1.0)); });
  } else if (kind == "arithmetic") {
    fill([&](double i) { return 1.0 - (1.0 - 1.0 / condition) * i / (count - 1.0); });
  } else if (kind == "spike") {
    values = noise_values(p, p * 7 / 2, 3);
    std::for_each(values.begin() + 1, values.end(), [](double& value) { value *= 0.1; });
  } else if (kind == "trained") {
    values = noise_values(p, 2 * p, 4);
    for (std::int64_t i = 0; i < p; ++i) {
      double& value = values[static_cast<std::size_t>(i)];
      value = 0.1 * value + 0.9 * std::pow(static_cast<double>(i + 1), -0.7);
    }
  } else if (kind == "clusters") {
    fill([](double i) { return i < 64.0 ? 1.0 : 0.1; });
  } else {
    throw std::logic_error("no law " + law);
  }
  return values;
}

/// Q diag(values) Q^T, lower triangle, with a random Q.
std::vector<double> symmetric_of(const std::vector<double>& values) {
  openblas_set_num_threads(1);
  const auto n = static_cast<lapack_int>(values.size());
  const std::size_t elements = values.size() * values.size();
  std::mt19937_64 random(7);
  std::normal_distribution<double> normal;
  std::vector<double> q(elements);
  std::generate(q.begin(), q.end(), [&] { return normal(random); });
  std::vector<double> tau(values.size());
  const lapack_int room = 64 * n;
  std::vector<double> work(static_cast<std::size_t>(room));
  lapack_int info = 0;
  LAPACK_dgeqrf(&n, &n, q.data(), &n, tau.data(), work.data(), &room, &info);
  std::vector<double> factor(elements, 0.0);
  for (std::size_t i = 0; i < values.size(); ++i) {
    factor[i * values.size() + i] = values[i];
  }
  LAPACK_dormqr("L", "N", &n, &n, &n, q.data(), &n, tau.data(), factor.data(), &n, work.data(),
                &room, &info);
  cblas_dsyrk(CblasColMajor, CblasLower, CblasNoTrans, n, n, 1.0, factor.data(), n, 0.0, q.data(),
              n);
  return q;
}

/// A band that is nearly diagonal, LAPACK's storage.
std::vector<double> band_of_lines(std::int64_t n) {
  constexpr double kCoupling = 1e-6;
  std::mt19937_64 random(3);
  std::normal_distribution<double> normal;
  std::vector<double> squares;
  for (const double value : values_of_law("geometric 30", n)) {
    squares.push_back(value * value);
  }
  std::shuffle(squares.begin(), squares.end(), random);
  std::vector<double> band(static_cast<std::size_t>(n * (kBandWidth + 1)), 0.0);
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t i = j; i < std::min<std::int64_t>(n, j + kBandWidth + 1); ++i) {
      const double least =
          std::min(squares[static_cast<std::size_t>(i)], squares[static_cast<std::size_t>(j)]);
      band[static_cast<std::size_t>(j * (kBandWidth + 1) + i - j)] =
          i == j ? squares[static_cast<std::size_t>(i)] : kCoupling * least * normal(random);
    }
  }
  return band;
}

/// The band of a dense symmetric matrix, LAPACK's storage, and its diagonal's norms.
std::vector<double> reduced(std::vector<double> dense, std::int64_t order,
                            statistics::GramNorms& norms) {
  for (std::int64_t i = 0; i < order; ++i) {
    const double diagonal = dense[static_cast<std::size_t>(i * order + i)];
    norms.diagonal_norm_squared += diagonal * diagonal;
    norms.largest_diagonal = std::max(norms.largest_diagonal, diagonal);
  }
  const auto n = static_cast<int>(order);
  const int width = kBandWidth;
  const int stride = kBandWidth + 1;
  std::vector<double> band(static_cast<std::size_t>(order * stride));
  std::vector<double> tau(static_cast<std::size_t>(order));
  int info = 0;
  int room = -1;
  double wanted = 0.0;
  const auto reduce = [&](double* work) {
    dsytrd_sy2sb_("L", &n, &width, dense.data(), &n, band.data(), &stride, tau.data(), work, &room,
                  &info, 1);
  };
  reduce(&wanted);
  room = static_cast<int>(wanted);
  std::vector<double> work(static_cast<std::size_t>(room));
  reduce(work.data());
  return band;
}

}  // namespace

LawBand band_of_law(const std::string& law, std::int64_t order) {
  LawBand out{.law = law, .order = order, .elements = {}, .squares = {}, .norms = {}};
  if (law == "lines") {
    out.elements = band_of_lines(order);
  } else {
    out.elements = reduced(symmetric_of(values_of_law(law, order)), order, out.norms);
  }
  constexpr int kStride = kBandWidth + 1;
  for (std::int64_t j = 0; j < order; ++j) {
    for (std::int64_t i = j; i < std::min(order, j + kStride); ++i) {
      double& value = out.elements[static_cast<std::size_t>(j * kStride + i - j)];
      value = static_cast<float>(value);
      const double square = (i == j ? 1.0 : 2.0) * value * value;
      out.norms.gram_norm_squared += square;
      out.norms.passes_norm_squared += static_cast<double>(j / kBandWidth + 1) * square;
      if (i == j) {
        out.norms.sum_squares += value;
        if (law == "lines") {
          out.norms.diagonal_norm_squared += square;
          out.norms.largest_diagonal = std::max(out.norms.largest_diagonal, value);
        }
      }
    }
  }
  out.squares = values_of_band(out.elements, order);
  std::reverse(out.squares.begin(), out.squares.end());
  return out;
}

}  // namespace vindex::test
