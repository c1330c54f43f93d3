// Owns unit rows of a gate projection and the means of their cosines, neighbours and all pairs.
#include "gate_cosines.hpp"

#include "decode/encoding/encoded_matrix.hpp"
#include "engine/units/row_slabs.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <stop_token>
#include <vector>

namespace vindex::commands {

namespace {

/// Rows of a tile of products.
constexpr std::int64_t kTile = 1024;

/// The rows of a gate, each of norm 1.
class UnitRows {
 public:
  UnitRows(MatrixInput& gate, const model::FeatureRows& rows)
      : width_(gate.transposed() ? gate.rows() : gate.cols()) {
    values_.resize(static_cast<std::size_t>(rows.count) * static_cast<std::size_t>(width_));
    read(gate, rows);
    normalise(rows.count);
  }

  std::int64_t width() const { return width_; }
  bool is_finite() const { return is_finite_; }
  const std::vector<bool>& zero() const { return zero_; }
  std::span<const float> row(std::int64_t i) const {
    return std::span(values_).subspan(static_cast<std::size_t>(i * width_),
                                      static_cast<std::size_t>(width_));
  }
  /// Rows [first, first + count), each as a matrix of one row.
  std::vector<decode::EncodedMatrix> views(std::int64_t first, std::int64_t count) const {
    std::vector<decode::EncodedMatrix> out;
    for (std::int64_t i = first; i < first + count; ++i) {
      out.push_back(decode::float32_view(row(i).data(), 1, width_));
    }
    return out;
  }

 private:
  void read(MatrixInput& gate, const model::FeatureRows& rows) {
    const auto number = [&](std::int64_t logical) -> std::int64_t {
      const std::int64_t from_first = logical - rows.first;
      const bool is_one =
          from_first >= 0 && from_first % rows.step == 0 && from_first / rows.step < rows.count;
      return is_one ? from_first / rows.step : -1;
    };
    engine::for_each_slab(
        gate, 1, [&](const decode::EncodedMatrix& slab, std::span<const float> values) {
          for (std::int64_t i = 0; i < slab.rows; ++i) {
            const float* const stored = values.data() + i * slab.cols;
            if (!gate.transposed()) {
              if (const std::int64_t f = number(slab.first_row + i); f >= 0) {
                std::copy_n(stored, width_, values_.data() + f * width_);
              }
              continue;
            }
            for (std::int64_t j = 0; j < slab.cols; ++j) {
              if (const std::int64_t f = number(j); f >= 0) {
                values_[static_cast<std::size_t>(f * width_ + slab.first_row + i)] = stored[j];
              }
            }
          }
        });
  }
  void normalise(std::int64_t count) {
    zero_.resize(static_cast<std::size_t>(count));
    for (std::int64_t f = 0; f < count; ++f) {
      float* const values = values_.data() + f * width_;
      double squares = 0.0;
      for (std::int64_t i = 0; i < width_; ++i) {
        squares += static_cast<double>(values[i]) * values[i];
      }
      is_finite_ = is_finite_ && std::isfinite(squares);
      zero_[static_cast<std::size_t>(f)] = squares == 0.0;
      const double scale = squares > 0.0 ? 1.0 / std::sqrt(squares) : 0.0;
      for (std::int64_t i = 0; i < width_; ++i) {
        values[i] = static_cast<float>(values[i] * scale);
      }
    }
  }

  std::int64_t width_;
  std::vector<float> values_;
  std::vector<bool> zero_;
  bool is_finite_ = true;
};

double mean_adjacent(const UnitRows& rows, std::int64_t count) {
  double sum = 0.0;
  std::int64_t pairs = 0;
  for (std::int64_t f = 0; f + 1 < count; ++f) {
    if (rows.zero()[static_cast<std::size_t>(f)] || rows.zero()[static_cast<std::size_t>(f + 1)]) {
      continue;
    }
    const std::span<const float> a = rows.row(f);
    const std::span<const float> b = rows.row(f + 1);
    double product = 0.0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      product += static_cast<double>(a[i]) * b[i];
    }
    sum += product;
    ++pairs;
  }
  // Rows are of unit length but for rounding.
  return pairs > 0 ? std::clamp(sum / static_cast<double>(pairs), -1.0, 1.0)
                   : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

GateCosines gate_cosines(MatrixInput& gate, const model::FeatureRows& rows, Backend& backend,
                         std::int32_t threads, const std::stop_token& stop) {
  const UnitRows unit(gate, rows);
  GateCosines out;
  out.rows = rows.count;
  out.zero_rows = std::count(unit.zero().begin(), unit.zero().end(), true);
  out.is_finite = unit.is_finite();
  if (!out.is_finite) {
    return out;
  }
  out.adjacent = mean_adjacent(unit, rows.count);
  // Rows of zeros add nothing to a sum of products; pairs are counted without them.
  double sum = 0.0;
  std::vector<double> products;
  for (std::int64_t i = 0; i < rows.count; i += kTile) {
    const std::int64_t height = std::min(kTile, rows.count - i);
    const std::vector<decode::EncodedMatrix> left = unit.views(i, height);
    for (std::int64_t j = 0; j <= i; j += kTile) {
      const std::int64_t width = std::min(kTile, rows.count - j);
      const std::vector<decode::EncodedMatrix> right = unit.views(j, width);
      const auto tile = backend.inner_products({.left = height,
                                                .right = i == j ? 0 : width,
                                                .cols = unit.width(),
                                                .threads = threads,
                                                .stop = stop});
      if (i == j) {
        tile->add({.matrices = left});
      } else {
        tile->add({.matrices = left}, {.matrices = right});
      }
      products.resize(static_cast<std::size_t>(height * width));
      tile->read(products);
      for (std::int64_t r = 0; r < height; ++r) {
        const std::int64_t end = i == j ? r : width;
        for (std::int64_t c = 0; c < end; ++c) {
          sum += std::abs(products[static_cast<std::size_t>(r * width + c)]);
        }
      }
    }
  }
  const auto alive = static_cast<double>(out.rows - out.zero_rows);
  if (alive > 1.0) {
    out.mean_absolute = std::min(1.0, sum / (0.5 * alive * (alive - 1.0)));
  }
  return out;
}

std::uint64_t gate_cosines_memory(std::int64_t rows, std::int64_t width, std::int64_t stored_cols,
                                  const Backend& backend, std::int32_t threads) {
  const std::int64_t side = std::min(rows, kTile);
  const auto tile = static_cast<std::uint64_t>(side * side);
  return static_cast<std::uint64_t>(rows) * static_cast<std::uint64_t>(width) * sizeof(float) +
         engine::slab_memory(stored_cols, 1, false) + tile * sizeof(double) +
         2 * static_cast<std::uint64_t>(side) * sizeof(decode::EncodedMatrix) +
         backend
             .inner_product_memory({.left = side, .right = side, .cols = width, .threads = threads})
             .host;
}

}  // namespace vindex::commands
