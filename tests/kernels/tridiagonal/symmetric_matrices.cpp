// Owns making these matrices with seeded random directions.
#include "symmetric_matrices.hpp"

#include <cblas.h>
#include <lapacke.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <stdexcept>

namespace vindex::test {

SymmetricMatrix gaussian_gram(std::int64_t p, std::int64_t rows, double scale, unsigned seed) {
  std::mt19937_64 generator(seed);
  std::normal_distribution<double> normal;
  std::vector<double> w(static_cast<std::size_t>(rows * p));
  std::generate(w.begin(), w.end(), [&] { return normal(generator); });
  SymmetricMatrix gram(p);
  for (std::int64_t row = 0; row < rows; ++row) {
    const double* x = w.data() + row * p;
    for (std::int64_t i = 0; i < p; ++i) {
      for (std::int64_t j = 0; j < p; ++j) {
        gram.at(i, j) += scale * x[i] * x[j];
      }
    }
  }
  return gram;
}

SymmetricMatrix matrix_with_eigenvalues(std::span<const double> values, unsigned seed) {
  constexpr int kReflections = 4;
  const auto p = static_cast<std::int64_t>(values.size());
  SymmetricMatrix matrix(p);
  for (std::int64_t i = 0; i < p; ++i) {
    matrix.at(i, i) = values[static_cast<std::size_t>(i)];
  }
  std::mt19937_64 generator(seed);
  std::normal_distribution<double> normal;
  std::vector<double> v(static_cast<std::size_t>(p));
  std::vector<double> product(v.size());
  for (int reflection = 0; reflection < kReflections; ++reflection) {
    double squares = 0.0;
    for (double& x : v) {
      x = normal(generator);
      squares += x * x;
    }
    double overlap = 0.0;
    for (std::int64_t i = 0; i < p; ++i) {
      double& sum = product[static_cast<std::size_t>(i)];
      sum = 0.0;
      for (std::int64_t j = 0; j < p; ++j) {
        sum += matrix.at(i, j) * v[static_cast<std::size_t>(j)];
      }
      overlap += sum * v[static_cast<std::size_t>(i)];
    }
    for (std::int64_t i = 0; i < p; ++i) {
      for (std::int64_t j = 0; j < p; ++j) {
        const double vi = v[static_cast<std::size_t>(i)];
        const double vj = v[static_cast<std::size_t>(j)];
        matrix.at(i, j) -= 2.0 / squares *
                               (product[static_cast<std::size_t>(i)] * vj +
                                vi * product[static_cast<std::size_t>(j)]) -
                           4.0 * overlap / squares / squares * vi * vj;
      }
    }
  }
  return matrix;
}

std::vector<double> eigenvalues_of(const SymmetricMatrix& matrix) {
  if (std::any_of(matrix.values.begin(), matrix.values.end(),
                  [](double value) { return !std::isfinite(value); })) {
    return std::vector<double>(static_cast<std::size_t>(matrix.order), std::nan(""));
  }
  openblas_set_num_threads(1);  // small matrices, and tests that run beside others
  std::vector<double> copy = matrix.values;
  std::vector<double> values(static_cast<std::size_t>(matrix.order));
  const auto order = static_cast<lapack_int>(matrix.order);
  const lapack_int work_size = 2 * order + 1;
  const lapack_int integer_work_size = 1;
  std::vector<double> work(static_cast<std::size_t>(work_size));
  lapack_int integer_work = 0;
  lapack_int info = 0;
  LAPACK_dsyevd("N", "L", &order, copy.data(), &order, values.data(), work.data(), &work_size,
                &integer_work, &integer_work_size, &info);
  if (info != 0) {
    throw std::runtime_error("dsyevd did not converge");
  }
  return values;
}

std::vector<NamedSymmetricMatrix> symmetric_suite(std::int64_t p) {
  std::vector<NamedSymmetricMatrix> suite;
  const auto add = [&](const char* name, auto value) {
    std::vector<double> values(static_cast<std::size_t>(p));
    for (std::int64_t i = 0; i < p; ++i) {
      values[static_cast<std::size_t>(i)] = value(static_cast<double>(i));
    }
    suite.push_back({name, matrix_with_eigenvalues(values, 11)});
  };
  const auto n = static_cast<double>(p);
  suite.push_back({"gaussian", gaussian_gram(p, p + p / 2 + 1, 0x1p20, 5)});
  add("power law", [](double i) { return 1e6 / (1.0 + i / 16.0); });
  add("geometric", [n](double i) { return std::pow(1e4, -2.0 * i / n); });
  add("clustered", [](double i) { return i < 1.0 ? 1.0 : 1e-4; });
  add("clusters", [](double i) { return 3.0 - std::floor(i / 20.0) * 1e-3; });
  add("spiked", [](double i) { return i < 3.0 ? 1e9 * (3.0 - i) : 1.0 + i * 1e-3; });
  add("low rank", [](double i) { return i < 5.0 ? 5.0 - i : 0.0; });
  SymmetricMatrix identity(p);
  SymmetricMatrix graded(p);
  SymmetricMatrix ones(p);
  SymmetricMatrix dead = gaussian_gram(p, p + 1, 1.0, 6);
  const SymmetricMatrix noise = gaussian_gram(p, 2 * p, 1.0, 9);
  for (std::int64_t i = 0; i < p; ++i) {
    identity.at(i, i) = 1.0;
    for (std::int64_t j = 0; j < p; ++j) {
      ones.at(i, j) = 0x1p-3;
      if (i % 3 == 1 || j % 3 == 1) {
        dead.at(i, j) = 0.0;
      }
      const auto grade = [n](std::int64_t k) {
        return std::pow(10.0, -15.0 * static_cast<double>(k) / n);
      };
      graded.at(i, j) = noise.at(i, j) * grade(i) * grade(j);
    }
  }
  suite.push_back({"identity", identity});
  suite.push_back({"graded", graded});
  suite.push_back({"rank 1", ones});
  suite.push_back({"dead columns", dead});
  suite.push_back({"zero", SymmetricMatrix(p)});
  std::reverse(graded.values.begin(), graded.values.end());  // smallest first
  suite.push_back({"graded upwards", graded});
  return suite;
}

}  // namespace vindex::test
