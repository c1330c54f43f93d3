// Owns the sums of a Gram matrix: G += T^T T tile by tile (BLAS syrk, one triangle: n p^2 flop
// where gemm would take 2 n p^2), and what is read off it: its norm, its diagonal, lines that are
// zero.
//
// Each tile's products are summed among themselves and then added once. So the error of an entry
// grows with the length of a tile plus the number of tiles, not with the long side, and is the
// smaller the more even the cut: (length + n / length) eps where one running sum has n eps.
#include "gram.hpp"

#include "blas/blas.hpp"
#include "core/integers.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <vector>

namespace vindex::cpu {
namespace {

template <typename T>
double norm_squared(const T* gram, std::int64_t p) {
  // Column by column, as one running sum of p^2 / 2 terms would round by more than a spectrum may
  // miss it (statistics/judgement/spectrum_checks.hpp). Lanes of their own: the order of additions
  // is fixed, and no addition waits for the one before.
  constexpr std::int64_t kLanes = 8;
  double total = 0.0;
  double lost = 0.0;  // by the last addition of a column
  for (std::int64_t j = 0; j < p; ++j) {
    const T* const column = gram + j * p;
    const auto diagonal = static_cast<double>(column[j]);
    std::array<double, kLanes> lanes{};
    std::int64_t i = 0;
    for (; i + kLanes <= j; i += kLanes) {
      for (std::int64_t lane = 0; lane < kLanes; ++lane) {
        const auto value = static_cast<double>(column[i + lane]);
        lanes[static_cast<std::size_t>(lane)] += value * value;
      }
    }
    for (; i < j; ++i) {
      lanes[0] += static_cast<double>(column[i]) * static_cast<double>(column[i]);
    }
    const double above = std::accumulate(lanes.begin(), lanes.end(), 0.0);
    const double sum = diagonal * diagonal + 2.0 * above - lost;
    const double next = total + sum;
    lost = (next - total) - sum;
    total = next;
  }
  return total;
}

template <typename T>
DiagonalNorms norms_of_diagonal(const T* gram, std::int64_t p) {
  DiagonalNorms out;
  for (std::int64_t i = 0; i < p; ++i) {
    const auto entry = static_cast<double>(gram[i * p + i]);
    out.trace += entry;
    out.norm_squared += entry * entry;
    out.largest = std::max(out.largest, entry);
  }
  return out;
}

template <typename T>
double norm_squared_of_additive(const T* gram, std::int64_t p) {
  constexpr double kRounding = 32.0 * 0x1p-24;
  constexpr std::int64_t kStep = 7;
  double sum = 0.0;
  for (std::int64_t j = p - 1; j > 2; j -= kStep) {
    const T* const own = gram + j * p;
    const T* const before = own - p;
    for (std::int64_t i = 0; i + 2 < j; ++i) {
      const auto entry = static_cast<double>(own[i]);
      const double mixed = (entry - static_cast<double>(own[i + 1])) -
                           (static_cast<double>(before[i]) - static_cast<double>(before[i + 1]));
      sum += std::abs(mixed) <= kRounding * std::abs(entry) ? entry * entry : 0.0;
    }
  }
  return 2.0 * kStep * sum;
}

template <typename T>
std::vector<std::int64_t> lines_with_a_norm(const T* gram, std::int64_t p) {
  std::vector<std::int64_t> lines;
  lines.reserve(as_size(p));
  for (std::int64_t j = 0; j < p; ++j) {
    if (gram[j * p + j] != T{0}) {
      lines.push_back(j);
    }
  }
  return lines;
}

template <typename T>
void pack_lines(T* gram, std::int64_t p, std::span<const std::int64_t> lines) {
  const auto left = static_cast<std::int64_t>(lines.size());
  if (left == p) {
    return;
  }
  // The destination of an entry never lies behind its source, so one forward sweep is safe.
  for (std::int64_t j = 0; j < left; ++j) {
    const T* const from = gram + lines[as_size(j)] * p;
    T* const to = gram + j * left;
    for (std::int64_t i = 0; i <= j; ++i) {
      to[i] = from[lines[as_size(i)]];
    }
  }
}

}  // namespace

void add_to_gram(const Tile& tile, bool row_slabs, float* gram) {
  // A row-major tile is its transpose in the column-major order of the library.
  const std::int64_t p = row_slabs ? tile.cols : tile.rows;
  const std::int64_t depth = row_slabs ? tile.rows : tile.cols;
  blas::blas().cblas_ssyrk(CblasColMajor, CblasUpper, row_slabs ? CblasNoTrans : CblasTrans,
                           as_int(p), as_int(depth), 1.0F, tile.values, as_int(tile.cols), 1.0F,
                           gram, as_int(p));
}

void add_to_gram(const Tile& tile, bool row_slabs, double* wide, double* gram) {
  const std::int64_t p = row_slabs ? tile.cols : tile.rows;
  const std::int64_t depth = row_slabs ? tile.rows : tile.cols;
  for (std::int64_t i = 0; i < tile.rows * tile.cols; ++i) {
    wide[i] = static_cast<double>(tile.values[i]);
  }
  blas::blas().cblas_dsyrk(CblasColMajor, CblasUpper, row_slabs ? CblasNoTrans : CblasTrans,
                           as_int(p), as_int(depth), 1.0, wide, as_int(tile.cols), 1.0, gram,
                           as_int(p));
}

double symmetric_norm_squared(const float* gram, std::int64_t p) { return norm_squared(gram, p); }
double symmetric_norm_squared(const double* gram, std::int64_t p) { return norm_squared(gram, p); }

DiagonalNorms diagonal_norms(const float* gram, std::int64_t p) {
  return norms_of_diagonal(gram, p);
}
DiagonalNorms diagonal_norms(const double* gram, std::int64_t p) {
  return norms_of_diagonal(gram, p);
}

double additive_norm_squared(const float* gram, std::int64_t p) {
  return norm_squared_of_additive(gram, p);
}
double additive_norm_squared(const double* gram, std::int64_t p) {
  return norm_squared_of_additive(gram, p);
}

std::vector<std::int64_t> nonzero_lines(const float* gram, std::int64_t p) {
  return lines_with_a_norm(gram, p);
}
std::vector<std::int64_t> nonzero_lines(const double* gram, std::int64_t p) {
  return lines_with_a_norm(gram, p);
}

void keep_lines(float* gram, std::int64_t p, std::span<const std::int64_t> lines) {
  pack_lines(gram, p, lines);
}
void keep_lines(double* gram, std::int64_t p, std::span<const std::int64_t> lines) {
  pack_lines(gram, p, lines);
}

}  // namespace vindex::cpu
