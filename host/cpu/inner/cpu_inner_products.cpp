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

#include "vector_block.hpp"

#include "backend/inner_products.hpp"
#include "blas/blas.hpp"
#include "core/integers.hpp"
#include "core/process/parallel.hpp"
#include "core/process/stop.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <vector>

namespace vindex::cpu {

namespace {

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
  std::size_t threads = 1;   ///< of one worker
  std::size_t products = 1;  ///< of a tile each, on their way to the sums
};

Sharing sharing_of(const InnerProductShape& shape) {
  const auto threads = static_cast<std::size_t>(std::max(1, shape.threads));
  const bool is_small = shape.left <= kTile && shape.columns() <= kTile;
  // As many again as workers: one that is late keeps nobody waiting for a while.
  return is_small ? Sharing{threads, 1, 2 * threads} : Sharing{1, threads, threads};
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

/// One block on its way: both sides decoded.
struct Worker {
  Worker(Workspace& workspace, const InnerProductShape& shape) : left(workspace, shape.left) {
    if (!shape.is_symmetric()) {
      right.emplace(workspace, shape.right);
    }
  }
  const VectorBlock& other() const { return right ? *right : left; }

  VectorBlock left;
  std::optional<VectorBlock> right;
};

/// What has to be added of a block, so that its worker can go on to another.
struct BlockProducts {
  BlockProducts(Workspace& workspace, const InnerProductShape& shape)
      : values(workspace, tile_floats(shape), "a tile of products"),
        exponents(workspace, shape.left, "the scales of products"),
        other_exponents(workspace, shape.columns(), "the scales of products"),
        squares(workspace, shape.left, "the sums of squares of products") {}
  static std::uint64_t memory_bytes(const InnerProductShape& shape) {
    return array_bytes(tile_floats(shape), sizeof(float)) + array_bytes(shape.left, sizeof(int)) +
           array_bytes(shape.columns(), sizeof(int)) + array_bytes(shape.left, sizeof(double));
  }

  void keep_scales(const Worker& worker) {
    is_scaled = worker.left.is_scaled() || worker.other().is_scaled();
    std::ranges::copy(worker.left.exponents(), exponents.data());
    std::ranges::copy(worker.other().exponents(), other_exponents.data());
    std::ranges::copy(worker.left.squares(), squares.data());
  }

  WorkArray<float> values;
  WorkArray<int> exponents, other_exponents;
  WorkArray<double> squares;
  bool is_scaled = false;
};

/// Hands out blocks in their order and says which worker adds next: products are ready in any order
/// and added in that of the blocks, by whoever brings the one that is due. Nobody waits for a block
/// that is late before all places are taken. Thread-safe.
class BlockOrder {
 public:
  BlockOrder(std::size_t blocks, std::size_t places) : blocks_(blocks), ready_(places, false) {}

  /// The next block, whose products go to place_of() it; nothing where there is none, or after a
  /// fail().
  std::optional<std::size_t> take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock,
                  [&] { return failed_ || begun_ == blocks_ || begun_ < added_ + ready_.size(); });
    return failed_ || begun_ == blocks_ ? std::nullopt : std::optional(begun_++);
  }
  std::size_t place_of(std::size_t block) const { return block % ready_.size(); }

  /// Its products are there; calls add(block) for every block that is due, unless another worker
  /// does so already.
  template <typename Add>
  void bring(std::size_t block, Add add) {
    std::unique_lock lock(mutex_);
    ready_[place_of(block)] = true;
    if (is_adding_) {
      return;
    }
    is_adding_ = true;
    while (ready_[place_of(added_)]) {
      lock.unlock();
      add(added_);
      lock.lock();
      ready_[place_of(added_)] = false;
      ++added_;
      changed_.notify_all();
    }
    is_adding_ = false;
  }

  void fail() {
    const std::lock_guard lock(mutex_);
    failed_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t blocks_, begun_ = 0, added_ = 0;
  std::vector<bool> ready_;  ///< per place
  bool is_adding_ = false, failed_ = false;
};

class CpuInnerProducts final : public CheckedInnerProducts {
 public:
  explicit CpuInnerProducts(const InnerProductShape& shape)
      : CheckedInnerProducts(shape),
        tiles_(tiles_of(shape)),
        workspace_(0),
        sums_(workspace_, sum_count(), "sums of inner products") {
    for (std::size_t i = 0; i < sharing_of(shape).workers; ++i) {
      workers_.emplace_back(workspace_, shape);
    }
    for (std::size_t i = 0; i < sharing_of(shape).products; ++i) {
      products_.emplace_back(workspace_, shape);
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
      }
      row += rows;
    }
    if (tiles_.size() > 1) {
      for (const BlockPlace& block : blocks) {
        throw_if_stopped(shape().stop);
        add_tiles(left, right, block);
      }
    } else {
      add_blocks(left, right, blocks);
    }
  }

  /// Blocks of one tile, each multiplied by one worker.
  void add_blocks(const VectorSlab& left, const VectorSlab& right,
                  const std::vector<BlockPlace>& blocks) {
    BlockOrder order(blocks.size(), products_.size());
    for_each_index(std::min(workers_.size(), blocks.size()), workers_.size(),
                   [&](std::size_t, std::size_t i) {
                     try {
                       multiply_blocks(workers_[i], left, right, blocks, order);
                     } catch (...) {
                       order.fail();
                       throw;
                     }
                   });
  }

  void multiply_blocks(Worker& worker, const VectorSlab& left, const VectorSlab& right,
                       const std::vector<BlockPlace>& blocks, BlockOrder& order) {
    while (const auto block = order.take()) {
      throw_if_stopped(shape().stop);
      BlockProducts& products = products_[order.place_of(*block)];
      load(worker, left, right, blocks[*block], 1);
      products.keep_scales(worker);
      multiply_tile(worker.left, worker.other(), blocks[*block], tiles_[0], products.values.data());
      order.bring(*block, [&](std::size_t due) {
        BlockProducts& ready = products_[order.place_of(due)];
        add_tile(tiles_[0], ready.values.data(), ready);
        add_squares(ready);
      });
    }
  }

  /// One block, its tiles shared by the threads.
  void add_tiles(const VectorSlab& left, const VectorSlab& right, const BlockPlace& place) {
    const std::size_t threads = sharing_of(shape()).threads;
    Worker& worker = workers_[0];
    load(worker, left, right, place, threads);
    products_[0].keep_scales(worker);
    for_each_index(tiles_.size(), threads, [&](std::size_t thread, std::size_t i) {
      throw_if_stopped(shape().stop);
      float* const products = products_[thread].values.data();
      multiply_tile(worker.left, worker.other(), place, tiles_[i], products);
      add_tile(tiles_[i], products, products_[0]);
    });
    add_squares(products_[0]);
  }

  static void load(Worker& worker, const VectorSlab& left, const VectorSlab& right,
                   const BlockPlace& place, std::size_t threads) {
    worker.left.load(left, place, threads);
    if (worker.right) {
      worker.right->load(right, place, threads);
    }
  }

  void add_squares(const BlockProducts& block) {
    if (shape().is_symmetric()) {
      for (std::int64_t i = 0; i < shape().left; ++i) {
        sums_[i * shape().left + i] += block.squares[i];
      }
    }
  }

  /// The products of a triangle below its diagonal, whose sums of squares are float64. `block`
  /// says their scales.
  void add_tile(const TilePlace& tile, const float* products, const BlockProducts& block) {
    for (std::int64_t i = 0; i < tile.rows; ++i) {
      const float* const from = products + i * tile.cols;
      double* const into = sums_.data() + (tile.row + i) * shape().columns() + tile.col;
      const std::int64_t count = tile.is_triangle ? i : tile.cols;
      if (!block.is_scaled) {
        for (std::int64_t j = 0; j < count; ++j) {
          into[j] += static_cast<double>(from[j]);
        }
        continue;
      }
      const int exponent = block.exponents[tile.row + i];
      const int* const exponents = block.other_exponents.data() + tile.col;
      for (std::int64_t j = 0; j < count; ++j) {
        into[j] += std::ldexp(static_cast<double>(from[j]), exponent + exponents[j]);
      }
    }
  }

  std::vector<TilePlace> tiles_;
  Workspace workspace_;  // outlives its arrays
  WorkArray<double> sums_;
  std::vector<Worker> workers_;
  std::vector<BlockProducts> products_;  ///< of small sums a ring of them, else one per thread
};

}  // namespace

std::unique_ptr<InnerProducts> make_cpu_inner_products(const InnerProductShape& shape) {
  return std::make_unique<CpuInnerProducts>(shape);
}

InnerProductMemory cpu_inner_product_memory(const InnerProductShape& shape) {
  const std::uint64_t right = shape.is_symmetric() ? 0 : VectorBlock::memory_bytes(shape.right);
  const Sharing sharing = sharing_of(shape);
  return {.host = array_bytes(shape.left * shape.columns(), sizeof(double)) +
                  sharing.workers * (VectorBlock::memory_bytes(shape.left) + right) +
                  sharing.products * BlockProducts::memory_bytes(shape),
          .device = 0};
}

}  // namespace vindex::cpu
