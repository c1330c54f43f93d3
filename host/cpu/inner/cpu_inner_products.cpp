#include "inner/cpu_inner_products.hpp"

#include "inner/vector_block.hpp"

#include <vindex/blas/blas.hpp>
#include <vindex/core/ceil_divide.hpp>
#include <vindex/core/error.hpp>
#include <vindex/core/parallel.hpp>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

namespace vindex::cpu {

namespace {

using measure::InnerProductShape;
using measure::SlabShape;
using measure::VectorSlab;

/// A tile of sums is one task of one thread: its side is a constant, so that bits know no threads.
constexpr std::int64_t kTile = 512;
/// Columns of a block of wide matrices, about.
constexpr std::int64_t kDepth = 1024;

struct TilePlace {
  std::int64_t row = 0, col = 0, rows = 0, cols = 0;
  bool is_triangle = false;  ///< on the diagonal of a symmetric sum: its lower half
};

std::vector<TilePlace> tiles_of(const InnerProductShape& shape) {
  std::vector<TilePlace> tiles;
  for (std::int64_t row = 0; row < shape.left; row += kTile) {
    const std::int64_t end = shape.is_symmetric() ? row + 1 : shape.columns();
    for (std::int64_t col = 0; col < end; col += kTile) {
      tiles.push_back({.row = row,
                       .col = col,
                       .rows = std::min(kTile, shape.left - row),
                       .cols = std::min(kTile, shape.columns() - col),
                       .is_triangle = shape.is_symmetric() && row == col});
    }
  }
  return tiles;
}

std::int64_t tile_floats(const InnerProductShape& shape) {
  return std::min(kTile, shape.left) * std::min(kTile, shape.columns());
}

std::size_t thread_count_of(const InnerProductShape& shape) {
  return static_cast<std::size_t>(std::max(1, shape.threads));
}

int as_int(std::int64_t value) { return static_cast<int>(value); }

/// out = left right^T of one block, row-major without gaps.
void multiply_tile(const VectorBlock& left, const VectorBlock& right, const BlockPlace& place,
                   const TilePlace& tile, float* out) {
  const std::int64_t depth = place.depth();
  const auto at = [&](const VectorBlock& side, std::int64_t first) {
    return side.values() + (place.columns ? first : first * depth);
  };
  const auto stride = [&](const VectorBlock& side) {
    return as_int(place.columns ? side.vectors() : depth);
  };
  if (tile.is_triangle) {
    blas::blas().cblas_ssyrk(CblasRowMajor, CblasLower, place.columns ? CblasTrans : CblasNoTrans,
                             as_int(tile.rows), as_int(depth), 1.0F, at(left, tile.row),
                             stride(left), 0.0F, out, as_int(tile.cols));
    return;
  }
  blas::blas().cblas_sgemm(CblasRowMajor, place.columns ? CblasTrans : CblasNoTrans,
                           place.columns ? CblasNoTrans : CblasTrans, as_int(tile.rows),
                           as_int(tile.cols), as_int(depth), 1.0F, at(left, tile.row), stride(left),
                           at(right, tile.col), stride(right), 0.0F, out, as_int(tile.cols));
}

class CpuInnerProducts final : public measure::InnerProducts {
 public:
  explicit CpuInnerProducts(const InnerProductShape& shape)
      : shape_(shape),
        tiles_(tiles_of(shape)),
        workspace_(0),
        sums_(workspace_, shape.left * shape.columns(), "sums of inner products"),
        products_(workspace_,
                  tile_floats(shape) * static_cast<std::int64_t>(thread_count_of(shape)),
                  "tiles of products"),
        left_(workspace_, shape.left) {
    if (!shape.is_symmetric()) {
      right_.emplace(workspace_, shape.right);
    }
    std::fill_n(sums_.data(), sums_.size(), 0.0);
  }

  void add(const VectorSlab& left, const VectorSlab& right) override {
    expects(!shape_.is_symmetric(), "inner products of a symmetric sum: one slab");
    add_blocks(left, right, slab_shape(left, right, shape_));
  }
  void add(const VectorSlab& both) override {
    expects(shape_.is_symmetric(), "inner products of two sides: two slabs");
    add_blocks(both, both, slab_shape(both, shape_.left));
  }

  void read(std::span<double> out) override {
    expects(static_cast<std::int64_t>(out.size()) == sums_.size(), "inner products: a sum each");
    std::copy_n(sums_.data(), sums_.size(), out.data());
    if (shape_.is_symmetric()) {
      const auto n = static_cast<std::size_t>(shape_.left);
      for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t j = 0; j < i; ++j) {
          out[j * n + i] = out[i * n + j];
        }
      }
    }
  }

 private:
  void add_blocks(const VectorSlab& left, const VectorSlab& right, const SlabShape& slab) {
    std::int64_t width = std::max<std::int64_t>(slab.cols, 1);
    if (!left.columns) {
      const std::int64_t least = ceil_divide(kDepth, slab.block_rows);
      width = std::min(width, ceil_divide(least, slab.granularity) * slab.granularity);
    }
    for (std::int64_t row = 0; row < slab.rows;) {
      const std::int64_t position = slab.first_row + row;
      const std::int64_t rows =
          std::min(slab.rows - row, slab.block_rows - position % slab.block_rows);
      for (std::int64_t col = 0; col < slab.cols; col += width) {
        add_block(left, right,
                  {.first_row = row,
                   .rows = rows,
                   .first_col = col,
                   .cols = std::min(width, slab.cols - col),
                   .columns = left.columns});
      }
      row += rows;
    }
  }

  void add_block(const VectorSlab& left, const VectorSlab& right, const BlockPlace& place) {
    left_.load(left, place, thread_count_of(shape_));
    if (right_) {
      right_->load(right, place, thread_count_of(shape_));
    }
    const VectorBlock& other = right_ ? *right_ : left_;
    for_each_index(tiles_.size(), thread_count_of(shape_), [&](std::size_t worker, std::size_t i) {
      float* const products =
          products_.data() + static_cast<std::int64_t>(worker) * tile_floats(shape_);
      multiply_tile(left_, other, place, tiles_[i], products);
      add_tile(tiles_[i], products, other);
    });
    if (shape_.is_symmetric()) {
      for (std::int64_t i = 0; i < shape_.left; ++i) {
        sums_[i * shape_.left + i] += left_.squares()[static_cast<std::size_t>(i)];
      }
    }
  }

  /// The products of a triangle below its diagonal, whose sums of squares are float64.
  void add_tile(const TilePlace& tile, const float* products, const VectorBlock& other) {
    const bool is_scaled = left_.is_scaled() || other.is_scaled();
    for (std::int64_t i = 0; i < tile.rows; ++i) {
      const float* const from = products + i * tile.cols;
      double* const into = sums_.data() + (tile.row + i) * shape_.columns() + tile.col;
      const std::int64_t count = tile.is_triangle ? i : tile.cols;
      if (!is_scaled) {
        for (std::int64_t j = 0; j < count; ++j) {
          into[j] += static_cast<double>(from[j]);
        }
        continue;
      }
      const int exponent = left_.exponents()[static_cast<std::size_t>(tile.row + i)];
      const int* const exponents = other.exponents().data() + tile.col;
      for (std::int64_t j = 0; j < count; ++j) {
        into[j] += std::ldexp(static_cast<double>(from[j]), exponent + exponents[j]);
      }
    }
  }

  InnerProductShape shape_;
  std::vector<TilePlace> tiles_;
  Workspace workspace_;  // outlives its arrays
  WorkArray<double> sums_;
  WorkArray<float> products_;
  VectorBlock left_;
  std::optional<VectorBlock> right_;
};

}  // namespace

std::unique_ptr<measure::InnerProducts> make_cpu_inner_products(const InnerProductShape& shape) {
  expects(shape.left > 0 && shape.right >= 0, "inner products of at least one vector");
  return std::make_unique<CpuInnerProducts>(shape);
}

measure::InnerProductMemory cpu_inner_product_memory(const InnerProductShape& shape) {
  const auto threads = static_cast<std::int64_t>(thread_count_of(shape));
  const std::uint64_t right = shape.is_symmetric() ? 0 : VectorBlock::memory_bytes(shape.right);
  return {.host = array_bytes(shape.left * shape.columns(), sizeof(double)) +
                  array_bytes(tile_floats(shape) * threads, sizeof(float)) +
                  VectorBlock::memory_bytes(shape.left) + right,
          .device = 0};
}

}  // namespace vindex::cpu
