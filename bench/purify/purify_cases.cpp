// Owns how the cases are drawn: signals of low rank, of a power law and smooth ones, the noise that
// is added to each, and the published errors of every method.
#include "purify_cases.hpp"

#include "blas/blas.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <random>

namespace vindex::throughput {
namespace {

using Random = std::mt19937_64;
using Values = std::vector<double>;

Values normals(std::int64_t count, Random& random) {
  std::normal_distribution<double> normal;
  Values out(static_cast<std::size_t>(count));
  std::generate(out.begin(), out.end(), [&] { return normal(random); });
  return out;
}

/// a (rows x inner) times b (inner x cols), row-major.
Values product(const Values& a, const Values& b, std::int64_t rows, std::int64_t inner,
               std::int64_t cols) {
  Values out(static_cast<std::size_t>(rows * cols));
  blas::blas().cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, static_cast<int>(rows),
                           static_cast<int>(cols), static_cast<int>(inner), 1.0, a.data(),
                           static_cast<int>(inner), b.data(), static_cast<int>(cols), 0.0,
                           out.data(), static_cast<int>(cols));
  return out;
}

void scale(Values& values, double factor) {
  for (double& value : values) {
    value *= factor;
  }
}

/// Entries of variance amplitude^2: as strong as the noise at 1.
Values low_rank(std::int64_t rows, std::int64_t cols, std::int64_t rank, double amplitude,
                Random& random) {
  const Values left = normals(rows * rank, random);
  const Values right = normals(rank * cols, random);
  Values out = product(left, right, rows, rank, cols);
  scale(out, amplitude / std::sqrt(static_cast<double>(rank)));
  return out;
}

/// count x length with orthonormal rows: random, of Haar's measure up to signs.
Values orthonormal_rows(std::int64_t count, std::int64_t length, Random& random) {
  Values q = normals(count * length, random);
  const auto m = static_cast<lapack_int>(length);  // column-major length x count
  const auto k = static_cast<lapack_int>(count);
  Values tau(static_cast<std::size_t>(count));
  Values work(static_cast<std::size_t>(count * 64));
  const auto work_size = static_cast<lapack_int>(work.size());
  lapack_int info = 0;
  blas::blas().LAPACK_dgeqrf(&m, &k, q.data(), &m, tau.data(), work.data(), &work_size, &info);
  expects(info == 0, "dgeqrf accepts its arguments");
  blas::blas().LAPACK_dorgqr(&m, &k, &k, q.data(), &m, tau.data(), work.data(), &work_size, &info);
  expects(info == 0, "dorgqr accepts its arguments");
  return q;
}

/// Singular values i^-0.5, entries of mean square 1.
Values power_law(std::int64_t rows, std::int64_t cols, Random& random) {
  Values left = orthonormal_rows(rows, rows, random);
  const Values right = orthonormal_rows(rows, cols, random);
  double energy = 0.0;
  for (std::int64_t i = 0; i < rows; ++i) {
    const double value = 1.0 / std::sqrt(static_cast<double>(i + 1));
    energy += value * value;
    for (std::int64_t j = 0; j < rows; ++j) {
      left[static_cast<std::size_t>(j * rows + i)] *= value;
    }
  }
  Values out = product(left, right, rows, rows, cols);
  scale(out, std::sqrt(static_cast<double>(rows * cols) / energy));
  return out;
}

/// sqrt(2) sin(3 turns down) sin(5 turns across): smooth where rows and columns keep their order.
Values sinusoid(std::int64_t rows, std::int64_t cols, bool permuted, Random& random) {
  std::vector<std::int64_t> down(static_cast<std::size_t>(rows));
  std::vector<std::int64_t> across(static_cast<std::size_t>(cols));
  std::iota(down.begin(), down.end(), 0);
  std::iota(across.begin(), across.end(), 0);
  if (permuted) {
    std::shuffle(down.begin(), down.end(), random);
    std::shuffle(across.begin(), across.end(), random);
  }
  const auto wave = [](std::int64_t at, std::int64_t length, double turns) {
    return std::sin(2.0 * std::numbers::pi * turns * static_cast<double>(at) /
                    static_cast<double>(length));
  };
  Values out;
  for (const std::int64_t i : down) {
    for (const std::int64_t j : across) {
      out.push_back(std::numbers::sqrt2 * wave(i, rows, 3.0) * wave(j, cols, 5.0));
    }
  }
  return out;
}

}  // namespace

const std::vector<PurifyCase>& purify_cases() {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  static const std::vector<PurifyCase> kCases = {
      {"rank 8, amplitude 1",
       {.995, 1.022, .895, kNone, kNone, .210, .120, .957, .014, .014, 1.02}},
      {"rank 8, amplitude 0.3",
       {.954, .092, .799, kNone, kNone, .211, .023, .957, .015, .013, .092}},
      {"rank 64, amplitude 1",
       {1.000, 1.007, .894, kNone, kNone, .156, .844, .946, .120, .107, 1.01}},
      {"power law i^-0.5, noise 30 %",
       {1.50, 11.1, 1.95, kNone, kNone, 3.71, 7.15, 1.20, 3.71, 3.55, 11.1}},
      {"power law i^-0.5, noise 5 %", {21, 400, 43, kNone, kNone, 128, 257, 2.6, 116, 113, 400}},
      {"sinusoid, natural order",
       {.925, .000, .793, kNone, kNone, .217, .022, .957, .002, .002, .49}},
      {"sinusoid, permuted", {.961, .488, .840, kNone, kNone, .217, .022, .957, .002, .002, .49}},
  };
  return kCases;
}

DrawnMatrix draw_case(std::size_t index, std::int64_t rows, std::int64_t cols, std::uint64_t seed) {
  Random random(seed + index);
  Values signal;
  double noise = 1.0;
  switch (index) {
    case 0:
      signal = low_rank(rows, cols, 8, 1.0, random);
      break;
    case 1:
      signal = low_rank(rows, cols, 8, 0.3, random);
      break;
    case 2:
      signal = low_rank(rows, cols, 64, 1.0, random);
      break;
    case 3:
    case 4:
      signal = power_law(rows, cols, random);
      noise = index == 3 ? 0.3 : 0.05;
      break;
    default:
      signal = sinusoid(rows, cols, index == 6, random);
  }
  DrawnMatrix out{.rows = rows,
                  .cols = cols,
                  .signal = std::vector<float>(signal.begin(), signal.end()),
                  .weights = {}};
  Values drawn = normals(rows * cols, random);
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    out.weights.push_back(static_cast<float>(signal[i] + noise * drawn[i]));
  }
  return out;
}

}  // namespace vindex::throughput
