// The trial of products with the factor of a reduction, 32 columns at a time: of panels made up, so
// that the host knows the product, and no kernel but the one on trial has a part in it.
#include "self_test_bench.hpp"
#include "self_test_inputs.hpp"

#include "kernels/band/back_transform/wide_back_transform.hpp"

#include <algorithm>
#include <cmath>

namespace vindex::kernels {

namespace {

constexpr std::int64_t kRows = 353;  ///< several panels and a rest; more tiles than warps
constexpr std::int64_t kOrder = band_order(kRows);
constexpr std::int64_t kPanels = kOrder / kBand - 1;
constexpr std::int64_t kColumns = 40;  ///< a block of columns and a part of one
constexpr std::int64_t kSlots = 2;
/// Four times what a sound kernel shows, of the largest element of a column.
constexpr double kTolerance = 1.3e-6;

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

/// What a reduction keeps: T in the diagonal blocks, V below them, of columns with a norm near 1.
/// Above them not-a-number, which is not to be read.
std::vector<float> panels_of_noise() {
  std::vector<float> out;
  for (std::int64_t i = 0; i < kSlots * kOrder * kOrder; ++i) {
    const std::int64_t row = i / kOrder % kOrder;
    const std::int64_t column = i % kOrder;
    const std::int64_t below = kOrder - column / kBand * kBand;
    const bool is_of_t = row / kBand == column / kBand;
    const double size = is_of_t ? 0.03 : 1.0 / std::sqrt(static_cast<double>(below));
    out.push_back(row / kBand < column / kBand
                      ? NAN
                      : static_cast<float>(size * random_unit(71, static_cast<std::uint64_t>(i))));
  }
  return out;
}

/// column <- Q column, or Q^T column: kOrder elements.
void multiply_by_panels(const float* matrix, bool transposed, double* column) {
  for (std::int64_t step = 0; step < kPanels; ++step) {
    const std::int64_t start = (transposed ? step : kPanels - 1 - step) * kBand;
    const float* const t = matrix + start * (kOrder + 1);
    double sums[kBand] = {};
    double turned[kBand] = {};
    for (std::int64_t row = start + kBand; row < kOrder; ++row) {
      for (std::int64_t j = 0; j < kBand; ++j) {
        sums[j] += static_cast<double>(matrix[row * kOrder + start + j]) * column[row];
      }
    }
    for (std::int64_t i = 0; i < kBand; ++i) {
      for (std::int64_t j = 0; j < kBand; ++j) {
        turned[i] +=
            static_cast<double>(transposed ? t[j * kOrder + i] : t[i * kOrder + j]) * sums[j];
      }
    }
    for (std::int64_t row = start + kBand; row < kOrder; ++row) {
      for (std::int64_t j = 0; j < kBand; ++j) {
        column[row] -= static_cast<double>(matrix[row * kOrder + start + j]) * turned[j];
      }
    }
  }
}

/// Columns of kRows; one of them of zeros, and sizes as of residuals.
std::vector<double> columns_of_noise() {
  std::vector<double> out(at(kSlots * kColumns * kRows));
  fill_random(out, 72);
  for (std::int64_t c = 0; c < kSlots * kColumns; ++c) {
    const double size = c == 5 ? 0.0 : std::ldexp(1.0, static_cast<int>(-c));
    for (std::int64_t row = 0; row < kRows; ++row) {
      out[at(c * kRows + row)] *= size;
    }
  }
  return out;
}

}  // namespace

void try_wide_back_transform(TestBench& bench, Verdict& verdict) {
  const std::vector<float> panels = panels_of_noise();
  const std::vector<double> columns = columns_of_noise();
  const std::vector<std::int64_t> which = {1, 0};
  constexpr std::int64_t kTurned = kSlots * kColumns * kOrder;
  DeviceBuffer buffer("self-test");
  struct Arrays {
    explicit Arrays(Arena& memory)
        : matrices(memory.take<float>(kSlots * kOrder * kOrder)),
          scratch(memory.take<float>(wide_transform_scratch(kOrder, kColumns, kSlots))),
          which(memory.take<std::int64_t>(kSlots)),
          from(memory.take<double>(kSlots * kColumns * kRows)),
          to(memory.take<double>(kTurned)) {}
    float *matrices, *scratch;
    std::int64_t* which;
    double *from, *to;
  };
  Arena counted(nullptr, 0);
  const Arrays sizes(counted);
  Arena real(buffer.reserve(counted.used()), counted.used());
  const Arrays arrays(real);
  bench.send(panels, arrays.matrices);
  bench.send(columns, arrays.from);
  bench.send(which, arrays.which);
  for (const bool transposed : {false, true}) {
    bench.kernels.wide_back_transform32({.matrices = arrays.matrices,
                                         .which = arrays.which,
                                         .order = kOrder,
                                         .columns = kColumns,
                                         .slots = kSlots,
                                         .transposed = transposed,
                                         .from = {arrays.from, kRows, kRows * kColumns, kRows},
                                         .to = {arrays.to, kOrder, kOrder * kColumns, kOrder},
                                         .scratch = arrays.scratch},
                                        wide_transform_warps(bench.device.shared_bytes),
                                        bench.stream());
    const std::vector<double> got = bench.fetched(arrays.to, kTurned);
    for (std::int64_t c = 0; c < kSlots * kColumns; ++c) {
      std::vector<double> wanted(at(kOrder), 0.0);
      std::copy_n(columns.begin() + c * kRows, kRows, wanted.begin());
      multiply_by_panels(panels.data() + which[at(c / kColumns)] * kOrder * kOrder, transposed,
                         wanted.data());
      double largest = 0.0;
      for (const double value : wanted) {
        largest = std::max(largest, std::abs(value));
      }
      verdict.compare({got.data() + c * kOrder, at(kOrder)}, wanted, largest > 0.0 ? largest : 1.0,
                      kTolerance);
    }
  }
}

}  // namespace vindex::kernels
