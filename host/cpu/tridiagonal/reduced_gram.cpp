// Owns the way of columns through the orthogonal factor of a kept reduction: to the row-major
// blocks of whole vectors that apply_band_factor() takes, in the precision of the reduction, and
// back. Rounding float64 columns to a float32 factor's precision costs nothing: Q is orthogonal to
// no more than that, and what it leaves is measured by residuals afterwards.
#include "reduced_gram.hpp"

#include "core/integers.hpp"
#include "cpu/simd/simd_level.hpp"

#include <algorithm>
#include <span>
#include <stop_token>

namespace vindex::cpu {
namespace {

std::int64_t whole_columns(std::int64_t count) { return ceil_divide(count, kBand) * kBand; }

/// Rows of whole vectors, from and to columns.
template <typename T>
class RowBlock {
 public:
  RowBlock(std::int64_t rows, std::int64_t count, Workspace& workspace)
      : rows_(rows),
        count_(count),
        width_(whole_columns(count)),
        values_(workspace, rows * width_, "columns by rows") {
    std::fill_n(values_.data(), rows_ * width_, T{0});
  }

  /// Row i from, or to, element places[i] of columns of `length`; empty: i.
  void take(const double* columns, std::int64_t length, std::span<const std::int64_t> places) {
    for (std::int64_t j = 0; j < count_; ++j) {
      for (std::int64_t i = 0; i < rows_of(length, places); ++i) {
        values_[i * width_ + j] = static_cast<T>(columns[j * length + place(i, places)]);
      }
    }
  }
  void give(double* columns, std::int64_t length, std::span<const std::int64_t> places) const {
    std::fill_n(columns, length * count_, 0.0);
    for (std::int64_t j = 0; j < count_; ++j) {
      for (std::int64_t i = 0; i < rows_of(length, places); ++i) {
        columns[j * length + place(i, places)] = static_cast<double>(values_[i * width_ + j]);
      }
    }
  }

  /// The rows from `first` on, and those back.
  template <typename U>
  void take_rows(const RowBlock<U>& from, std::int64_t first) {
    copy_values(from.data() + first * width_, values_.data(), rows_ * width_);
  }
  template <typename U>
  void give_rows(RowBlock<U>& to, std::int64_t first) const {
    copy_values(values_.data(), to.data() + first * width_, rows_ * width_);
  }

  /// Q times this, or Q^T, with a factor of order n of which `columns` are reduced.
  void apply(std::int64_t n, std::int64_t columns, bool transposed, std::span<std::byte> factor,
             const std::stop_token& stop) {
    apply_band_factor(n, transposed, columns, values_.span(), width_, band_factor(n, factor, T{}),
                      best_simd_level(), stop);
  }

  T* data() { return values_.data(); }
  const T* data() const { return values_.data(); }

 private:
  static std::int64_t rows_of(std::int64_t length, std::span<const std::int64_t> places) {
    return places.empty() ? length : static_cast<std::int64_t>(places.size());
  }
  static std::int64_t place(std::int64_t i, std::span<const std::int64_t> places) {
    return places.empty() ? i : places[as_size(i)];
  }
  template <typename From, typename To>
  static void copy_values(const From* from, To* to, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      to[i] = static_cast<To>(from[i]);
    }
  }

  std::int64_t rows_, count_, width_;
  WorkArray<T> values_;
};

template <typename T>
void take_side(RowBlock<T>& block, const ReducedGram& gram, bool transposed, const double* from) {
  if (transposed) {
    block.take(from, gram.short_side, gram.lines);
  } else {
    block.take(from, band_order(gram.n), {});
  }
}

template <typename T>
void give_side(const RowBlock<T>& block, const ReducedGram& gram, bool transposed, double* to) {
  if (transposed) {
    block.give(to, band_order(gram.n), {});
  } else {
    block.give(to, gram.short_side, gram.lines);
  }
}

template <typename T>
void apply_in(ReducedGram& gram, bool transposed, const double* from, std::int64_t count,
              double* to, Workspace& workspace) {
  RowBlock<T> block(band_order(gram.n), count, workspace);
  take_side(block, gram, transposed, from);
  block.apply(gram.n, gram.n, transposed, gram.factor.span(), workspace.stop());
  give_side(block, gram, transposed, to);
}

/// Q = Q_first (I + Q_rest), the sum over the first columns and those behind them.
void apply_mixed(ReducedGram& gram, bool transposed, const double* from, std::int64_t count,
                 double* to, Workspace& workspace) {
  const std::int64_t rest = rest_order(gram.n, gram.wide_columns);
  RowBlock<double> block(band_order(gram.n), count, workspace);
  take_side(block, gram, transposed, from);
  const auto apply_first = [&] {
    block.apply(gram.n, gram.wide_columns, transposed, gram.factor.span(), workspace.stop());
  };
  if (transposed) {
    apply_first();
  }
  {
    RowBlock<float> part(rest, count, workspace);
    part.take_rows(block, gram.wide_columns);
    part.apply(rest, rest, transposed, gram.rest_factor.span(), workspace.stop());
    part.give_rows(block, gram.wide_columns);
  }
  if (!transposed) {
    apply_first();
  }
  give_side(block, gram, transposed, to);
}

}  // namespace

void apply_factor(ReducedGram& gram, bool transposed, const double* from, std::int64_t count,
                  double* to, Workspace& workspace) {
  if (gram.wide_columns == 0) {
    apply_in<float>(gram, transposed, from, count, to, workspace);
  } else if (gram.wide_columns == gram.n) {
    apply_in<double>(gram, transposed, from, count, to, workspace);
  } else {
    apply_mixed(gram, transposed, from, count, to, workspace);
  }
}

std::uint64_t apply_factor_bytes(std::int64_t n, std::int64_t count) {
  const std::int64_t elements = band_order(n) * whole_columns(count);
  return array_bytes(elements, sizeof(double)) + array_bytes(elements, sizeof(float));
}

}  // namespace vindex::cpu
