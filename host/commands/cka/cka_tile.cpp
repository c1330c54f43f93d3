// Owns the estimates of one tile of layers: plain, permuted, and without each group in turn.
#include "cka_tile.hpp"

#include "core/process/parallel.hpp"
#include "core/process/stop.hpp"
#include "statistics/cka/cka.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace vindex::commands {

namespace {

using Block = std::vector<float>;

/// Of ||X^T X||_F^2, what rounding may leave of ||A||_F^2 where A is 0. Sums over features are
/// float32 products that nearly cancel; elements of A are rounded one by one.
constexpr double kRoundingOfFeatures = 1e-5;
constexpr double kRoundingOfRows = 1e-12;

/// Layers with numbers to compute with, and the pairs of one tile.
class TileMeasurer {
 public:
  TileMeasurer(const Multiplier& multiplier, const CkaPlan& plan, std::span<const TileLayer> left,
               std::span<const TileLayer> right, std::span<const TileLayer> nexts,
               std::span<const std::int64_t> next, const TileDraws& draws)
      : multiplier_(multiplier),
        plan_(plan),
        next_(next),
        draws_(draws),
        left_count_(left.size()),
        right_count_(right.size()) {
    for (const auto side : {left, right, nexts}) {
      layers_.insert(layers_.end(), side.begin(), side.end());
    }
    rows_ = layers_.front().rows->rows();
    whole_ = {{0, rows_}};
    result_.pairs.resize(left_count_ * right_count_);
    result_.adjacent.resize(left_count_);
  }

  TileResult run() {
    if (plan_.by_rows) {
      measure_by_rows();
    } else {
      estimate_by_features();
      permute_by_features();
    }
    return std::move(result_);
  }

 private:
  bool usable(std::size_t layer) const { return layers_[layer].sums->is_finite; }
  std::size_t right_layer(std::size_t j) const { return left_count_ + j; }
  /// The layer after left i among layers_, if there is one.
  std::optional<std::size_t> next_layer(std::size_t i) const {
    if (next_[i] < 0) {
      return std::nullopt;
    }
    const auto number = static_cast<std::size_t>(next_[i]);
    return number < left_count_ ? number : number + right_count_;
  }
  PassLayer pass(std::size_t layer) const {
    return {layers_[layer].rows, layers_[layer].sums, whole_};
  }
  TilePair& pair(std::size_t i, std::size_t j) { return result_.pairs[i * right_count_ + j]; }

  statistics::KernelSums sums_of(std::size_t left, std::size_t right,
                                 std::span<const engine::RowRun> order) const {
    const LayerSums& a = *layers_[left].sums;
    const LayerSums& b = *layers_[right].sums;
    return {.rows = rows_,
            .trace_left = a.trace,
            .trace_right = b.trace,
            .diagonal = norms_product(a, b, order)};
  }
  double u_centred(std::size_t left, std::size_t right, double squared) const {
    return statistics::u_centred_product(sums_of(left, right, whole_), squared);
  }
  double squared(std::size_t left, std::size_t right, double u_centred) const {
    return statistics::squared_cross_norm(sums_of(left, right, whole_), u_centred);
  }
  const SelfSums& self(std::size_t layer) const { return **layers_[layer].self; }
  double aligned(std::size_t left, std::size_t right, double u_centred) const {
    return self(left).has_kernel && self(right).has_kernel
               ? statistics::alignment(u_centred, self(left).u_centred, self(right).u_centred)
               : std::numeric_limits<double>::quiet_NaN();
  }

  double rounding() const { return plan_.by_rows ? kRoundingOfRows : kRoundingOfFeatures; }
  void set_self(std::size_t layer, double u_centred, double squared, ProductsWithout without) {
    *layers_[layer].self =
        SelfSums{u_centred, squared, u_centred > rounding() * squared, std::move(without)};
  }
  /// Whether there is something to align without one group.
  bool has_kernel(std::size_t layer, std::size_t group) const {
    return self(layer).without[group] > rounding() * self(layer).squared;
  }
  double directions(std::size_t layer) const {
    return statistics::varying_directions(rows_, layers_[layer].sums->trace, self(layer).u_centred);
  }
  /// Of two layers whose own sums are known.
  Estimate estimate(std::size_t left, std::size_t right, double u_centred,
                    const ProductsWithout& without) const {
    Estimate out;
    out.cka = aligned(left, right, u_centred);
    out.directions = std::sqrt(directions(left) * directions(right));
    for (std::size_t group = 0; group < without.size(); ++group) {
      const bool is_left = has_kernel(left, group) && has_kernel(right, group);
      out.without.push_back(is_left
                                ? statistics::alignment(without[group], self(left).without[group],
                                                        self(right).without[group])
                                : std::numeric_limits<double>::quiet_NaN());
    }
    return out;
  }
  /// What is known of a pair once <A, B> and ||X^T Y||^2 are.
  void set_pair(std::size_t i, std::size_t right, double u_centred, double squared,
                const ProductsWithout& without) {
    TilePair& out = pair(i, right - left_count_);
    out.estimate = estimate(i, right, u_centred, without);
    out.biased =
        self(i).has_kernel && self(right).has_kernel
            ? statistics::alignment(std::max(squared, 0.0), self(i).squared, self(right).squared)
            : std::numeric_limits<double>::quiet_NaN();
  }
  bool is_right(std::size_t layer) const {
    return layer >= left_count_ && layer < left_count_ + right_count_;
  }

  std::vector<std::size_t> usable_of(std::size_t first, std::size_t count) const {
    std::vector<std::size_t> out;
    for (std::size_t layer = first; layer < first + count; ++layer) {
      if (usable(layer)) {
        out.push_back(layer);
      }
    }
    return out;
  }

  void estimate_by_features() {
    std::vector<PassLayer> passes;
    std::vector<std::size_t> place(layers_.size());
    std::vector<PassPair> pairs;
    std::vector<std::pair<std::size_t, std::size_t>> wanted;
    const auto want = [&](std::size_t left, std::size_t right) {
      pairs.push_back({place[left], place[right]});
      wanted.emplace_back(left, right);
    };
    for (const std::size_t layer : usable_of(0, layers_.size())) {
      place[layer] = passes.size();
      passes.push_back(pass(layer));
    }
    for (const std::size_t layer : usable_of(0, layers_.size())) {
      if (!layers_[layer].self->has_value()) {
        want(layer, layer);
      }
    }
    const std::size_t selves = wanted.size();
    for (const std::size_t i : usable_of(0, left_count_)) {
      for (const std::size_t right : usable_of(left_count_, right_count_)) {
        want(i, right);
      }
      if (const auto next = next_layer(i); next && usable(*next)) {
        want(i, *next);
      }
    }
    if (wanted.empty()) {
      return;
    }
    std::vector<CrossProduct> products =
        cross_products(multiplier_, passes, pairs, plan_.slab, draws_.jackknife);
    std::vector<ProductsWithout> without(wanted.size());
    if (draws_.jackknife) {
      without = products_without(multiplier_, passes, pairs, products, draws_.groups);
    }
    for (std::size_t w = 0; w < wanted.size(); ++w) {
      const auto [left, right] = wanted[w];
      const double squared = products[w].squared_norm;
      const double product = u_centred(left, right, squared);
      if (w < selves) {
        set_self(left, product, squared, std::move(without[w]));
      } else if (is_right(right)) {
        set_pair(left, right, product, squared, without[w]);
      } else {
        result_.adjacent[left] = estimate(left, right, product, without[w]);
      }
    }
  }

  std::vector<engine::RowRun> permuted_runs(std::int64_t draw) const {
    std::vector<engine::RowRun> runs;
    for (const std::int64_t group : statistics::drawn_order(
             static_cast<std::int64_t>(draws_.groups.size()), *draws_.strata, draw)) {
      runs.push_back(draws_.groups[static_cast<std::size_t>(group)]);
    }
    return runs;
  }

  void permute_by_features() {
    const std::vector<std::size_t> lefts = usable_of(0, left_count_);
    const std::vector<std::size_t> rights = usable_of(left_count_, right_count_);
    if (lefts.empty() || rights.empty()) {
      return;
    }
    for (std::int64_t draw = 0; draw < draws_.permutations; ++draw) {
      throw_if_stopped(multiplier_.stop);
      const std::vector<engine::RowRun> order = permuted_runs(draw);
      std::vector<PassLayer> passes;
      std::vector<PassPair> pairs;
      for (const std::size_t i : lefts) {
        passes.push_back(pass(i));
      }
      for (const std::size_t right : rights) {
        passes.push_back({layers_[right].rows, layers_[right].sums, order});
        for (std::size_t i = 0; i < lefts.size(); ++i) {
          pairs.push_back({i, passes.size() - 1});
        }
      }
      const std::vector<CrossProduct> products =
          cross_products(multiplier_, passes, pairs, plan_.slab, false);
      std::size_t at = 0;
      for (const std::size_t right : rights) {
        for (const std::size_t i : lefts) {
          const double product =
              statistics::u_centred_product(sums_of(i, right, order), products[at++].squared_norm);
          pair(i, right - left_count_).permuted.push_back(aligned(i, right, product));
        }
      }
    }
  }

  /// Gram matrices of all rows: one of every layer of the tile, another of a layer after it.
  void measure_by_rows() {
    const std::vector<std::size_t> lefts = usable_of(0, left_count_);
    const std::vector<std::size_t> rights = usable_of(left_count_, right_count_);
    const auto make = [&](const std::vector<std::size_t>& layers) {
      std::vector<Block> blocks;
      for (const std::size_t layer : layers) {
        blocks.push_back(u_centred_block(multiplier_, pass(layer), {0, rows_}, {0, rows_}));
      }
      return blocks;
    };
    const std::vector<Block> left_blocks = make(lefts);
    const std::vector<Block> right_blocks = make(rights);
    estimate_selves(lefts, left_blocks);
    estimate_selves(rights, right_blocks);
    for (std::size_t i = 0; i < lefts.size(); ++i) {
      const auto next = next_layer(lefts[i]);
      if (!next || !usable(*next)) {
        continue;
      }
      const auto among = std::find(lefts.begin(), lefts.end(), *next);
      if (among != lefts.end()) {
        estimate_adjacent(lefts[i], left_blocks[i], *next,
                          left_blocks[static_cast<std::size_t>(among - lefts.begin())]);
      } else {
        const std::vector<Block> own = make({*next});
        estimate_selves({*next}, own);
        estimate_adjacent(lefts[i], left_blocks[i], *next, own.front());
      }
    }
    if (!lefts.empty() && !rights.empty()) {
      estimate_pairs(lefts, left_blocks, rights, right_blocks);
      permute_by_rows(lefts, left_blocks, rights, right_blocks);
    }
  }

  /// Blocks are scaled (LayerSums::kernel_scale): what that makes of a product is undone here.
  double unscale(std::size_t left, std::size_t right) const {
    return 1.0 / (layers_[left].sums->kernel_scale * layers_[right].sums->kernel_scale);
  }
  BlockPair block_pair(std::size_t left, const Block& left_block, std::size_t right,
                       const Block& right_block, double product) const {
    const double by = unscale(left, right);
    return {&left_block, &right_block, by, by * product};
  }

  std::vector<ProductsWithout> without_of(const std::vector<BlockPair>& pairs) const {
    return draws_.jackknife ? products_without(pairs, draws_.groups, multiplier_.stop)
                            : std::vector<ProductsWithout>(pairs.size());
  }

  /// How many threads for tasks that touch `elements` elements together: a thread costs more than
  /// a small block.
  static std::size_t threads_for(std::size_t elements) {
    return elements < kThreadedElements ? 1 : thread_count(0);
  }

  void estimate_selves(const std::vector<std::size_t>& layers, const std::vector<Block>& blocks) {
    std::vector<BlockPair> pairs;
    std::vector<std::size_t> missing;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      if (!layers_[layers[i]].self->has_value()) {
        pairs.push_back(block_pair(layers[i], blocks[i], layers[i], blocks[i],
                                   vector_product(blocks[i], blocks[i])));
        missing.push_back(layers[i]);
      }
    }
    std::vector<ProductsWithout> without = without_of(pairs);
    for (std::size_t i = 0; i < missing.size(); ++i) {
      set_self(missing[i], pairs[i].product, squared(missing[i], missing[i], pairs[i].product),
               std::move(without[i]));
    }
  }

  void estimate_adjacent(std::size_t left, const Block& block, std::size_t next,
                         const Block& next_block) {
    const BlockPair both =
        block_pair(left, block, next, next_block, vector_product(block, next_block));
    result_.adjacent[left] = estimate(left, next, both.product, without_of({both}).front());
  }

  void estimate_pairs(const std::vector<std::size_t>& lefts, const std::vector<Block>& left_blocks,
                      const std::vector<std::size_t>& rights,
                      const std::vector<Block>& right_blocks) {
    std::vector<BlockPair> pairs;
    for_products(lefts, left_blocks, rights, right_blocks,
                 [&](std::size_t i, std::size_t j, double product) {
                   pairs.push_back(
                       block_pair(lefts[i], left_blocks[i], rights[j], right_blocks[j], product));
                 });
    const std::vector<ProductsWithout> without = without_of(pairs);
    for (std::size_t p = 0; p < pairs.size(); ++p) {
      const std::size_t left = lefts[p / rights.size()];
      const std::size_t right = rights[p % rights.size()];
      const double product = pairs[p].product;
      set_pair(left, right, product, squared(left, right, product), without[p]);
    }
  }

  /// Calls take(i, j, product) for every pair of lefts and rights, row by row.
  template <typename Take>
  void for_products(const std::vector<std::size_t>& lefts, const std::vector<Block>& left_blocks,
                    const std::vector<std::size_t>& rights, const std::vector<Block>& right_blocks,
                    Take take) const {
    const std::vector<double> products = vector_products(multiplier_, left_blocks, right_blocks);
    for (std::size_t i = 0; i < lefts.size(); ++i) {
      for (std::size_t j = 0; j < rights.size(); ++j) {
        take(i, j, products[i * rights.size() + j]);
      }
    }
  }

  void permute_by_rows(const std::vector<std::size_t>& lefts, const std::vector<Block>& left_blocks,
                       const std::vector<std::size_t>& rights,
                       const std::vector<Block>& right_blocks) {
    const auto n = static_cast<std::size_t>(rows_);
    std::vector<Block> permuted(rights.size());
    for (std::int64_t draw = 0; draw < draws_.permutations; ++draw) {
      throw_if_stopped(multiplier_.stop);
      std::vector<std::size_t> order;
      for (const engine::RowRun& run : permuted_runs(draw)) {
        for (std::int64_t i = run.first; i < run.first + run.count; ++i) {
          order.push_back(static_cast<std::size_t>(i));
        }
      }
      for_each_index(rights.size(), threads_for(n * n), [&](std::size_t /*worker*/, std::size_t j) {
        const Block& from = right_blocks[j];
        permuted[j].resize(from.size());
        for (std::size_t row = 0; row < n; ++row) {
          const float* const source = from.data() + order[row] * n;
          float* const into = permuted[j].data() + row * n;
          for (std::size_t col = 0; col < n; ++col) {
            into[col] = source[order[col]];
          }
        }
      });
      for_products(lefts, left_blocks, rights, permuted,
                   [&](std::size_t i, std::size_t j, double product) {
                     pair(lefts[i], rights[j] - left_count_)
                         .permuted.push_back(
                             aligned(lefts[i], rights[j], product * unscale(lefts[i], rights[j])));
                   });
    }
  }

  const Multiplier& multiplier_;
  const CkaPlan& plan_;
  std::span<const std::int64_t> next_;
  const TileDraws& draws_;
  std::size_t left_count_, right_count_;
  std::vector<TileLayer> layers_;  ///< left, right, nexts
  std::int64_t rows_ = 0;
  std::vector<engine::RowRun> whole_;
  TileResult result_;
};

}  // namespace

TileResult measure_tile(const Multiplier& multiplier, const CkaPlan& plan,
                        std::span<const TileLayer> left, std::span<const TileLayer> right,
                        std::span<const TileLayer> nexts, std::span<const std::int64_t> next,
                        const TileDraws& draws) {
  expects(next.size() == left.size(), "a next layer, or none, for each of A");
  return TileMeasurer(multiplier, plan, left, right, nexts, next, draws).run();
}

}  // namespace vindex::commands
