#include "cka_plan.hpp"

#include "cka_products.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace vindex::run {

namespace {

/// An operation on one element, beside a multiplication within a matrix product.
constexpr double kElement = 16.0;
constexpr std::uint64_t kSlabBytes = 64U << 20U;
constexpr std::int64_t kMostBlockRows = 4096;
constexpr std::int64_t kMostTileA = 64;

double real(std::int64_t value) { return static_cast<double>(value); }
std::uint64_t count(std::int64_t value) { return static_cast<std::uint64_t>(value); }
std::int64_t ceil_of(std::int64_t value, std::int64_t step) { return (value + step - 1) / step; }

std::int64_t widest(const CkaShape& shape) { return std::max(shape.width_a, shape.width_b); }

/// Grams of every layer and the products of pairs, for `rows` of which all pairs count.
double gram_cost(const CkaShape& shape) {
  return 0.5 * real(shape.rows) * real(shape.rows) *
         (real(shape.layers_a) * real(shape.width_a) + real(shape.layers_b) * real(shape.width_b));
}
double draw_cost(const CkaShape& shape) {
  const double pairs = real(shape.layers_a) * real(shape.layers_b);
  return real(shape.rows) * real(shape.rows) *
         (pairs + kElement * (real(shape.layers_a) + real(shape.layers_b)));
}

class Planner {
 public:
  Planner(const CkaShape& shape, std::int32_t threads, const InnerProductBytes& bytes)
      : shape_(shape), threads_(threads), bytes_(bytes) {}

  /// Of a plan with its tiles: an upper bound.
  std::uint64_t memory(const CkaPlan& plan) const {
    const std::uint64_t caches = count(shape_.layers_a + shape_.layers_b) *
                                 count(shape_.rows + widest(shape_)) * sizeof(double);
    const std::uint64_t draws = count(plan.tile_a) * count(plan.tile_b) *
                                count(shape_.permutations + shape_.resamples) * sizeof(double);
    const std::uint64_t sums =
        3 * count(std::min(plan.slab, kSumRows)) * count(widest(shape_)) * sizeof(double);
    const std::uint64_t most =
        std::max({sums, plan.by_rows || shape_.resamples > 0 ? blocks(plan) : 0,
                  plan.by_rows ? 0 : cross_products(plan)});
    return caches + draws + most;
  }

  CkaPlan with_tiles(bool by_rows, std::int64_t block_rows, std::uint64_t budget) const {
    CkaPlan best;
    best.by_rows = by_rows;
    // A small budget reads less at once: three layers' slabs take half of it.
    const std::uint64_t slab_bytes = std::min(kSlabBytes, budget / 12);
    best.slab = std::clamp<std::int64_t>(
        static_cast<std::int64_t>(slab_bytes / (count(widest(shape_)) * sizeof(float))), 256,
        std::max<std::int64_t>(256, shape_.rows));
    best.block_rows = block_rows;
    best.memory_bytes = memory(best);
    std::int64_t least_reads = reads(best);
    for (std::int64_t a = 1; a <= std::min(shape_.layers_a, kMostTileA); ++a) {
      for (std::int64_t b = 1; b <= shape_.layers_b; ++b) {
        CkaPlan plan = best;
        plan.tile_a = a;
        plan.tile_b = b;
        if (reads(plan) >= least_reads) {
          continue;
        }
        plan.memory_bytes = memory(plan);
        if (plan.memory_bytes > budget) {
          break;
        }
        least_reads = reads(plan);
        best = plan;
      }
    }
    return best;
  }

 private:
  /// Layers that are read, over the whole run.
  std::int64_t reads(const CkaPlan& plan) const {
    return shape_.layers_a * ceil_of(shape_.layers_b, plan.tile_b) +
           shape_.layers_b * ceil_of(shape_.layers_a, plan.tile_a);
  }

  /// Blocks of the tile's layers (and of the one after them), the same again for a draw, and what
  /// makes a block.
  std::uint64_t blocks(const CkaPlan& plan) const {
    const std::uint64_t block = count(plan.block_rows) * count(plan.block_rows) * sizeof(float);
    const std::uint64_t held =
        block * count(plan.tile_a + 1 + plan.tile_b + std::max(plan.tile_a, plan.tile_b));
    const std::uint64_t rows = 4 * count(plan.block_rows) * count(widest(shape_)) * sizeof(float);
    const std::int64_t tile = std::min(kGramTile, plan.block_rows);
    const std::uint64_t gram =
        bytes_({.left = tile, .right = tile, .cols = widest(shape_), .threads = threads_}) +
        count(tile) * count(tile) * sizeof(double);
    const std::int64_t piece = std::min(kVectorPiece, plan.block_rows * plan.block_rows);
    const std::uint64_t products =
        bytes_({.left = plan.tile_a, .right = plan.tile_b, .cols = piece, .threads = threads_});
    return held + std::max(rows + gram, products);
  }

  std::uint64_t cross_products(const CkaPlan& plan) const {
    const auto product = [&](std::int64_t left, std::int64_t right) {
      return bytes_({.left = left, .right = right, .threads = threads_});
    };
    const std::uint64_t pairs =
        count(plan.tile_a) * count(plan.tile_b) * product(shape_.width_a, shape_.width_b) +
        count(plan.tile_a) *
            (product(shape_.width_a, shape_.width_a) + product(shape_.width_a, 0)) +
        count(plan.tile_b) * product(shape_.width_b, 0) + product(shape_.width_a, 0);
    const std::uint64_t slabs = count(plan.tile_a + 1 + plan.tile_b) * count(plan.slab) *
                                count(widest(shape_)) * sizeof(double);
    return pairs + slabs + count(widest(shape_)) * count(widest(shape_)) * sizeof(double);
  }

  const CkaShape& shape_;
  std::int32_t threads_;
  const InnerProductBytes& bytes_;

 public:
  static constexpr std::int64_t kSumRows = 4096;
};

}  // namespace

CkaCost cost_of_rows(const CkaShape& shape) {
  return {.estimate = gram_cost(shape) + draw_cost(shape),
          .permutations = real(shape.permutations) * draw_cost(shape),
          .bootstrap = real(shape.resamples) * draw_cost(shape)};
}

CkaCost cost_of_features(const CkaShape& shape) {
  const double cross = real(shape.rows) * real(shape.layers_a) * real(shape.width_a) *
                       real(shape.layers_b) * real(shape.width_b);
  const double self = 0.5 * real(shape.rows) *
                      (real(shape.layers_a) * real(shape.width_a) * real(shape.width_a) +
                       real(shape.layers_b) * real(shape.width_b) * real(shape.width_b));
  const double next =
      real(shape.rows) * real(shape.layers_a - 1) * real(shape.width_a) * real(shape.width_a);
  return {.estimate = cross + self + next,
          .permutations = real(shape.permutations) * cross,
          .bootstrap = shape.resamples == 0 ? 0.0
                                            : 2.0 * gram_cost(shape) +
                                                  0.5 * real(shape.resamples) * draw_cost(shape)};
}

CkaPlan plan_cka(const CkaShape& shape, std::int32_t threads, const InnerProductBytes& bytes,
                 std::uint64_t budget) {
  const Planner planner(shape, threads, bytes);
  const CkaCost by_rows = cost_of_rows(shape);
  const CkaCost by_features = cost_of_features(shape);
  if (by_rows.total() <= by_features.total()) {
    CkaPlan plan = planner.with_tiles(true, shape.rows, budget);
    if (plan.memory_bytes <= budget) {
      plan.cost = by_rows;
      return plan;
    }
  }
  std::int64_t block = std::min(shape.rows, kMostBlockRows);
  CkaPlan plan = planner.with_tiles(false, block, budget);
  while (plan.memory_bytes > budget && block > 64) {
    block /= 2;
    plan = planner.with_tiles(false, block, budget);
  }
  plan.cost = by_features;
  return plan;
}

std::string plan_text(const CkaShape& shape, const CkaPlan& plan) {
  const auto flops = [](double multiplications) {
    const double operations = 2.0 * multiplications;
    return operations < 1e12 ? fmt::format("{:.2g} GFLOP", 1e-9 * operations)
                             : fmt::format("{:.0f} TFLOP", 1e-12 * operations);
  };
  return fmt::format(
      "plan: {} rows by {}, {} x {} layers at a time; {} for the estimate, {} for {} permutations, "
      "{} for {} draws of the bootstrap",
      shape.rows, plan.by_rows ? "Gram matrices of the rows" : "cross products of the features",
      plan.tile_a, plan.tile_b, flops(plan.cost.estimate), flops(plan.cost.permutations),
      shape.permutations, flops(plan.cost.bootstrap), shape.resamples);
}

}  // namespace vindex::run
