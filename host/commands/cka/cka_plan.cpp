// Owns the costs of both forms of CKA in flop and bytes, and the choice between them.
#include "cka_plan.hpp"

#include "cka_jackknife.hpp"
#include "cka_products.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace vindex::commands {

namespace {

/// An operation on one element, beside a multiplication within a matrix product.
constexpr double kElement = 16.0;
constexpr std::uint64_t kSlabBytes = 64U << 20U;
constexpr std::int64_t kMaxTileA = 64;

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
                                 count(shape_.rows + shape_.groups + widest(shape_)) *
                                 sizeof(double);
    const std::uint64_t draws = count(plan.tile_a) * count(plan.tile_b) *
                                count(shape_.permutations + 2 * shape_.groups) * sizeof(double);
    const std::uint64_t sums =
        3 * count(std::min(plan.slab, kSumRows)) * count(widest(shape_)) * sizeof(double);
    const std::uint64_t form =
        plan.by_rows ? blocks(plan) : std::max(cross_products(plan), without_groups(plan));
    return caches + draws + std::max(sums, form);
  }

  CkaPlan with_tiles(bool by_rows, std::uint64_t budget) const {
    CkaPlan best;
    best.by_rows = by_rows;
    // A small budget reads less at once: three layers' slabs take half of it.
    const std::uint64_t slab_bytes = std::min(kSlabBytes, budget / 12);
    best.slab = std::clamp<std::int64_t>(
        static_cast<std::int64_t>(slab_bytes / (count(widest(shape_)) * sizeof(float))), 256,
        std::max<std::int64_t>(256, shape_.rows));
    best.memory_bytes = memory(best);
    std::int64_t min_reads = reads(best);
    for (std::int64_t a = 1; a <= std::min(shape_.layers_a, kMaxTileA); ++a) {
      for (std::int64_t b = 1; b <= shape_.layers_b; ++b) {
        CkaPlan plan = best;
        plan.tile_a = a;
        plan.tile_b = b;
        if (reads(plan) >= min_reads) {
          continue;
        }
        plan.memory_bytes = memory(plan);
        if (plan.memory_bytes > budget) {
          break;
        }
        min_reads = reads(plan);
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

  std::int64_t held_layers(const CkaPlan& plan) const { return plan.tile_a + 1 + plan.tile_b; }

  /// Gram matrices of the tile's layers (and of the one after them), the permuted ones, and what
  /// makes one or multiplies them.
  std::uint64_t blocks(const CkaPlan& plan) const {
    const std::uint64_t block = count(shape_.rows) * count(shape_.rows) * sizeof(float);
    const std::uint64_t held = block * count(held_layers(plan) + plan.tile_b);
    const std::uint64_t rows = 4 * count(shape_.rows) * count(widest(shape_)) * sizeof(float);
    const std::int64_t tile = std::min(kGramTile, shape_.rows);
    const std::uint64_t gram =
        bytes_({.left = tile, .right = tile, .cols = widest(shape_), .threads = threads_}) +
        count(tile) * count(tile) * sizeof(double);
    const std::int64_t piece = std::min(kVectorPiece, shape_.rows * shape_.rows);
    const std::uint64_t products =
        bytes_({.left = plan.tile_a, .right = plan.tile_b, .cols = piece, .threads = threads_});
    const std::uint64_t without =
        shape_.groups == 0 ? 0 : products_without_bytes(shape_.rows, held_layers(plan));
    return held + std::max({rows + gram, products, without});
  }

  /// Cross products of the tile that are kept for the jackknife.
  std::uint64_t kept(const CkaPlan& plan) const {
    const auto product = [](std::int64_t left, std::int64_t right) {
      return count(left) * count(right) * sizeof(float);
    };
    return shape_.groups == 0
               ? 0
               : count(plan.tile_a) * count(plan.tile_b) * product(shape_.width_a, shape_.width_b) +
                     count(2 * plan.tile_a + 1) * product(shape_.width_a, shape_.width_a) +
                     count(plan.tile_b) * product(shape_.width_b, shape_.width_b);
  }

  /// Those, rows of every layer with sums of their groups, and a product of rows with one of them.
  std::uint64_t without_groups(const CkaPlan& plan) const {
    const std::int64_t rows = std::min(kDeletedRows, shape_.rows);
    const std::int64_t wide = widest(shape_);
    const std::uint64_t row = count(wide) * (3 * sizeof(float) + sizeof(double));
    const std::uint64_t transposed =
        bytes_({.left = rows, .right = wide, .cols = wide, .threads = threads_}) +
        count(rows) * count(wide) * (sizeof(double) + sizeof(float)) +
        count(rows + wide) * sizeof(decode::EncodedMatrix);
    const std::uint64_t grams =
        bytes_({.left = rows, .right = rows, .cols = wide, .threads = threads_}) +
        count(held_layers(plan)) * count(rows) * count(rows) * sizeof(double);
    return kept(plan) + count(held_layers(plan)) * count(rows) * row + std::max(transposed, grams);
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
    return pairs + slabs + count(widest(shape_)) * count(widest(shape_)) * sizeof(double) +
           kept(plan);
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
          // Sums on the host, of the pairs, of every layer with itself and of its columns.
          .jackknife = shape.groups == 0
                           ? 0.0
                           : kElement * real(shape.rows) * real(shape.rows) *
                                 (real(shape.layers_a) * real(shape.layers_b) +
                                  3.0 * real(shape.layers_a) + 2.0 * real(shape.layers_b))};
}

CkaCost cost_of_features(const CkaShape& shape) {
  const double cross = real(shape.rows) * real(shape.layers_a) * real(shape.width_a) *
                       real(shape.layers_b) * real(shape.width_b);
  const double self = 0.5 * real(shape.rows) *
                      (real(shape.layers_a) * real(shape.width_a) * real(shape.width_a) +
                       real(shape.layers_b) * real(shape.width_b) * real(shape.width_b));
  const double next =
      real(shape.rows) * real(shape.layers_a - 1) * real(shape.width_a) * real(shape.width_a);
  // Rows and sums of groups times each product, which is no triangle here; rows of one group with
  // each other.
  const double vectors =
      1.0 + (shape.groups < shape.rows ? real(shape.groups) / real(shape.rows) : 0.0);
  const double within =
      0.5 * real(shape.group_pairs) *
      (real(shape.layers_a) * real(shape.width_a) + real(shape.layers_b) * real(shape.width_b));
  return {.estimate = cross + self + next,
          .permutations = real(shape.permutations) * cross,
          .jackknife = shape.groups == 0 ? 0.0 : vectors * (cross + 2.0 * self + next) + within};
}

CkaPlan plan_cka(const CkaShape& shape, std::int32_t threads, const InnerProductBytes& bytes,
                 std::uint64_t budget) {
  const Planner planner(shape, threads, bytes);
  const CkaCost by_rows = cost_of_rows(shape);
  const CkaCost by_features = cost_of_features(shape);
  if (by_rows.total() <= by_features.total()) {
    CkaPlan plan = planner.with_tiles(true, budget);
    if (plan.memory_bytes <= budget) {
      plan.cost = by_rows;
      return plan;
    }
  }
  CkaPlan plan = planner.with_tiles(false, budget);
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
      "{} for the jackknife over {} prompts",
      shape.rows, plan.by_rows ? "Gram matrices of the rows" : "cross products of the features",
      plan.tile_a, plan.tile_b, flops(plan.cost.estimate), flops(plan.cost.permutations),
      shape.permutations, flops(plan.cost.jackknife), shape.groups);
}

}  // namespace vindex::commands
