// Owns sums of inner products of many vectors, X Y^T over a long contraction that passes by in
// blocks:
//
//   S_ij = sum over blocks b of  double( float sum over k in b of x_ik y_jk )
//   S_ii (of one set) = sum over k of x_ik^2 in float64
//
// Products of a block are BLAS gemm or syrk in float32, blocks are added in float64. An entry's
// error is then that of one block's sum, eps32 times its depth and typically its root, whatever the
// length; the diagonal is summed in float64, because sums of terms of one sign round with a bias.
//
// Why not float64 throughout: half the speed, twice the memory, for digits below those of the
// weights. Why fixed tiles and blocks: a sum's bits must depend on no count of threads and on no
// slab's cut.
#include "cpu_inner_products.hpp"

#include "blas/blas.hpp"
#include "core/integers.hpp"
#include "core/parallel.hpp"
#include "core/stop.hpp"
#include "measure/inner_products.hpp"
#include <vindex/error.hpp>

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
constexpr std::int64_t kProductDepth = 1024;

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

/// How threads share the work: small sums by blocks, each worker with memory of its own, large ones
/// by tiles of one block after the other. Blocks are added in their order either way.
struct Sharing {
  std::size_t workers = 1;
  std::size_t threads = 1;  ///< of one worker
};

Sharing sharing_of(const InnerProductShape& shape) {
  const auto threads = static_cast<std::size_t>(std::max(1, shape.threads));
  const bool is_small = shape.left <= kTile && shape.columns() <= kTile;
  return is_small ? Sharing{threads, 1} : Sharing{1, threads};
}

std::int64_t product_floats(const InnerProductShape& shape) {
  return tile_floats(shape) * static_cast<std::int64_t>(sharing_of(shape).threads);
}

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

/// One block on its way: both sides decoded, and room for products.
struct Worker {
  Worker(Workspace& workspace, const InnerProductShape& shape)
      : left(workspace, shape.left),
        products(workspace, product_floats(shape), "tiles of products") {
    if (!shape.is_symmetric()) {
      right.emplace(workspace, shape.right);
    }
  }
  const VectorBlock& other() const { return right ? *right : left; }

  VectorBlock left;
  std::optional<VectorBlock> right;
  WorkArray<float> products;
};

class CpuInnerProducts final : public measure::CheckedInnerProducts {
 public:
  explicit CpuInnerProducts(const InnerProductShape& shape)
      : CheckedInnerProducts(shape),
        tiles_(tiles_of(shape)),
        workspace_(0),
        sums_(workspace_, sum_count(), "sums of inner products") {
    for (std::size_t i = 0; i < sharing_of(shape).workers; ++i) {
      workers_.emplace_back(workspace_, shape);
    }
    std::fill_n(sums_.data(), sums_.size(), 0.0);
  }

 private:
  void read_sums(std::span<double> out) override {
    std::copy_n(sums_.data(), sums_.size(), out.data());
  }

  void add_slabs(const VectorSlab& left, const VectorSlab& right, const SlabShape& slab) override {
    std::int64_t width = std::max<std::int64_t>(slab.cols, 1);
    if (!left.columns) {
      const std::int64_t least = ceil_divide(kProductDepth, slab.block_rows);
      width = std::min(width, ceil_divide(least, slab.granularity) * slab.granularity);
    }
    std::vector<BlockPlace> blocks;
    for (std::int64_t row = 0; row < slab.rows;) {
      const std::int64_t position = slab.first_row + row;
      const std::int64_t rows =
          std::min(slab.rows - row, slab.block_rows - position % slab.block_rows);
      for (std::int64_t col = 0; col < slab.cols; col += width) {
        blocks.push_back({.first_row = row,
                          .rows = rows,
                          .first_col = col,
                          .cols = std::min(width, slab.cols - col),
                          .columns = left.columns});
        if (blocks.size() == workers_.size()) {
          add_together(left, right, blocks);
        }
      }
      row += rows;
    }
    add_together(left, right, blocks);
  }

  /// A block for each worker at most; none is left.
  void add_together(const VectorSlab& left, const VectorSlab& right,
                    std::vector<BlockPlace>& blocks) {
    throw_if_stopped(shape().stop);
    if (workers_.size() == 1 && blocks.size() == 1) {
      add_tiles(left, right, blocks[0]);
    } else {
      for_each_index(blocks.size(), workers_.size(), [&](std::size_t, std::size_t i) {
        Worker& worker = workers_[i];
        load(worker, left, right, blocks[i], 1);
        multiply_tile(worker.left, worker.other(), blocks[i], tiles_[0], worker.products.data());
      });
      for (std::size_t i = 0; i < blocks.size(); ++i) {
        add_tile(tiles_[0], workers_[i].products.data(), workers_[i]);
        add_squares(workers_[i]);
      }
    }
    blocks.clear();
  }

  /// One block, its tiles shared by the threads.
  void add_tiles(const VectorSlab& left, const VectorSlab& right, const BlockPlace& place) {
    const std::size_t threads = sharing_of(shape()).threads;
    Worker& worker = workers_[0];
    load(worker, left, right, place, threads);
    for_each_index(tiles_.size(), threads, [&](std::size_t thread, std::size_t i) {
      throw_if_stopped(shape().stop);
      float* const products =
          worker.products.data() + static_cast<std::int64_t>(thread) * tile_floats(shape());
      multiply_tile(worker.left, worker.other(), place, tiles_[i], products);
      add_tile(tiles_[i], products, worker);
    });
    add_squares(worker);
  }

  static void load(Worker& worker, const VectorSlab& left, const VectorSlab& right,
                   const BlockPlace& place, std::size_t threads) {
    worker.left.load(left, place, threads);
    if (worker.right) {
      worker.right->load(right, place, threads);
    }
  }

  void add_squares(const Worker& worker) {
    if (shape().is_symmetric()) {
      for (std::int64_t i = 0; i < shape().left; ++i) {
        sums_[i * shape().left + i] += worker.left.squares()[static_cast<std::size_t>(i)];
      }
    }
  }

  /// The products of a triangle below its diagonal, whose sums of squares are float64.
  void add_tile(const TilePlace& tile, const float* products, const Worker& worker) {
    const VectorBlock& other = worker.other();
    const bool is_scaled = worker.left.is_scaled() || other.is_scaled();
    for (std::int64_t i = 0; i < tile.rows; ++i) {
      const float* const from = products + i * tile.cols;
      double* const into = sums_.data() + (tile.row + i) * shape().columns() + tile.col;
      const std::int64_t count = tile.is_triangle ? i : tile.cols;
      if (!is_scaled) {
        for (std::int64_t j = 0; j < count; ++j) {
          into[j] += static_cast<double>(from[j]);
        }
        continue;
      }
      const int exponent = worker.left.exponents()[static_cast<std::size_t>(tile.row + i)];
      const int* const exponents = other.exponents().data() + tile.col;
      for (std::int64_t j = 0; j < count; ++j) {
        into[j] += std::ldexp(static_cast<double>(from[j]), exponent + exponents[j]);
      }
    }
  }

  std::vector<TilePlace> tiles_;
  Workspace workspace_;  // outlives its arrays
  WorkArray<double> sums_;
  std::vector<Worker> workers_;
};

}  // namespace

std::unique_ptr<measure::InnerProducts> make_cpu_inner_products(const InnerProductShape& shape) {
  return std::make_unique<CpuInnerProducts>(shape);
}

measure::InnerProductMemory cpu_inner_product_memory(const InnerProductShape& shape) {
  const std::uint64_t right = shape.is_symmetric() ? 0 : VectorBlock::memory_bytes(shape.right);
  const std::uint64_t worker = array_bytes(product_floats(shape), sizeof(float)) +
                               VectorBlock::memory_bytes(shape.left) + right;
  return {.host = array_bytes(shape.left * shape.columns(), sizeof(double)) +
                  sharing_of(shape).workers * worker,
          .device = 0};
}

}  // namespace vindex::cpu
