// Owns the way of columns through the orthogonal factor of a kept reduction: to the row-major
// blocks of whole vectors that apply_band_factor() takes, in the precision of the reduction, and
// back. Rounding float64 columns to a float32 factor's precision costs nothing: Q is orthogonal to
// no more than that, and what it leaves is measured by residuals afterwards.
#include "reduced_gram.hpp"

#include "core/integers.hpp"
#include "cpu/simd_level.hpp"

#include <algorithm>

namespace vindex::cpu {
namespace {

std::int64_t whole_columns(std::int64_t count) { return ceil_divide(count, kBand) * kBand; }

template <typename T>
void apply_in(ReducedGram& gram, bool transposed, const double* from, std::int64_t count,
              double* to, Workspace& workspace) {
  const std::int64_t order = band_order(gram.n);
  const std::int64_t from_rows = transposed ? gram.n : order;
  const std::int64_t to_rows = transposed ? order : gram.n;
  const std::int64_t width = whole_columns(count);
  WorkArray<T> block(workspace, order * width, "columns by rows");
  std::fill_n(block.data(), order * width, T{0});
  for (std::int64_t j = 0; j < count; ++j) {
    for (std::int64_t i = 0; i < from_rows; ++i) {
      block[i * width + j] = static_cast<T>(from[j * from_rows + i]);
    }
  }
  apply_band_factor(gram.n, transposed, block.span(), width,
                    band_factor(gram.n, gram.factor.span(), T{}), best_simd_level(),
                    workspace.stop());
  for (std::int64_t j = 0; j < count; ++j) {
    for (std::int64_t i = 0; i < to_rows; ++i) {
      to[j * to_rows + i] = static_cast<double>(block[i * width + j]);
    }
  }
}

}  // namespace

void apply_factor(ReducedGram& gram, bool transposed, const double* from, std::int64_t count,
                  double* to, Workspace& workspace) {
  if (gram.is_wide) {
    apply_in<double>(gram, transposed, from, count, to, workspace);
  } else {
    apply_in<float>(gram, transposed, from, count, to, workspace);
  }
}

std::uint64_t apply_factor_bytes(std::int64_t n, std::int64_t count) {
  return array_bytes(band_order(n) * whole_columns(count), sizeof(double));
}

}  // namespace vindex::cpu
