#include "cka_tile.hpp"

#include "draw_weights.hpp"

#include <vindex/core/error.hpp>
#include <vindex/core/parallel.hpp>
#include <vindex/measure/cka.hpp>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

namespace vindex::run {

namespace {

using Block = std::vector<float>;

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
    result_.adjacent.assign(left_count_, std::numeric_limits<double>::quiet_NaN());
    cross_.resize(result_.pairs.size());
  }

  TileResult run() {
    if (plan_.by_rows) {
      add_block({0, rows_}, {0, rows_});
    } else {
      estimate_by_features();
      permute_by_features();
      if (draws_.resamples > 0) {
        for (std::int64_t row = 0; row < rows_; row += plan_.block_rows) {
          for (std::int64_t col = row; col < rows_; col += plan_.block_rows) {
            add_block(block_run(row), block_run(col));
          }
        }
      }
    }
    finish_bootstrap();
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
  RowRun block_run(std::int64_t first) const {
    return {first, std::min(plan_.block_rows, rows_ - first)};
  }
  PassLayer pass(std::size_t layer) const {
    return {layers_[layer].rows, layers_[layer].sums, whole_};
  }
  TilePair& pair(std::size_t i, std::size_t j) { return result_.pairs[i * right_count_ + j]; }

  measure::KernelSums sums_of(std::size_t left, std::size_t right,
                              std::span<const RowRun> order) const {
    const LayerSums& a = *layers_[left].sums;
    const LayerSums& b = *layers_[right].sums;
    return {.rows = rows_,
            .trace_left = a.trace,
            .trace_right = b.trace,
            .diagonal = norms_product(a, b, order)};
  }
  double u_centred(std::size_t left, std::size_t right, double squared) const {
    return measure::u_centred_product(sums_of(left, right, whole_), squared);
  }
  double squared(std::size_t left, std::size_t right, double u_centred) const {
    return measure::squared_cross_norm(sums_of(left, right, whole_), u_centred);
  }
  const SelfSums& self(std::size_t layer) const { return **layers_[layer].self; }
  double aligned(std::size_t left, std::size_t right, double u_centred) const {
    return measure::alignment(u_centred, self(left).u_centred, self(right).u_centred);
  }

  /// What is known of a pair once <A, B> and ||X^T Y||^2 are.
  void set_pair(std::size_t i, std::size_t j, double u_centred, double squared) {
    const std::size_t right = right_layer(j);
    pair(i, j).cka = aligned(i, right, u_centred);
    pair(i, j).biased = measure::alignment(squared, self(i).squared, self(right).squared);
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
    const std::vector<double> norms = squared_cross_norms(multiplier_, passes, pairs, plan_.slab);
    for (std::size_t w = 0; w < wanted.size(); ++w) {
      const auto [left, right] = wanted[w];
      const double product = u_centred(left, right, norms[w]);
      if (w < selves) {
        *layers_[left].self = SelfSums{product, norms[w]};
      } else if (right >= left_count_ && right < left_count_ + right_count_) {
        set_pair(left, right - left_count_, product, norms[w]);
      } else {
        result_.adjacent[left] = aligned(left, right, product);
      }
    }
  }

  std::vector<RowRun> permuted_runs(std::int64_t draw) const {
    std::vector<RowRun> runs;
    for (const std::int64_t group :
         measure::drawn_order(static_cast<std::int64_t>(draws_.groups.size()), draw)) {
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
      const std::vector<RowRun> order = permuted_runs(draw);
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
      const std::vector<double> norms = squared_cross_norms(multiplier_, passes, pairs, plan_.slab);
      std::size_t at = 0;
      for (const std::size_t right : rights) {
        for (const std::size_t i : lefts) {
          const double product = measure::u_centred_product(sums_of(i, right, order), norms[at++]);
          pair(i, right - left_count_).permuted.push_back(aligned(i, right, product));
        }
      }
    }
  }

  /// One block of every Gram matrix: the estimate and the permutations where it is the whole, and
  /// its share of the bootstrap.
  void add_block(RowRun rows, RowRun cols) {
    const std::vector<std::size_t> lefts = usable_of(0, left_count_);
    const std::vector<std::size_t> rights = usable_of(left_count_, right_count_);
    std::vector<Block> left_blocks, right_blocks;
    const auto make = [&](std::size_t layer) {
      return u_centred_block(multiplier_, pass(layer), rows, cols);
    };
    std::transform(lefts.begin(), lefts.end(), std::back_inserter(left_blocks), make);
    std::transform(rights.begin(), rights.end(), std::back_inserter(right_blocks), make);
    if (plan_.by_rows) {
      estimate_by_rows(lefts, left_blocks, rights, right_blocks, make);
    }
    if (lefts.empty() || rights.empty()) {
      return;
    }
    if (plan_.by_rows) {
      permute_by_rows(lefts, left_blocks, rights, right_blocks);
    }
    resample(lefts, left_blocks, rights, right_blocks, rows, cols);
  }

  /// How many threads for tasks that touch `elements` elements together: a thread costs more than
  /// a small block.
  static std::size_t threads_for(std::size_t elements) {
    return elements < kThreadedElements ? 1 : thread_count(0);
  }

  static double dot(const Block& a, const Block& b) {
    constexpr std::size_t kPiece = 1U << 16U;
    const std::size_t pieces = (a.size() + kPiece - 1) / kPiece;
    std::vector<double> sums(pieces, 0.0);
    for_each_index(pieces, threads_for(a.size()), [&](std::size_t /*worker*/, std::size_t piece) {
      const std::size_t first = piece * kPiece;
      const std::size_t count = std::min(a.size() - first, kPiece);
      sums[piece] = float_dot(std::span(a).subspan(first, count), b.data() + first);
    });
    return std::accumulate(sums.begin(), sums.end(), 0.0);
  }

  template <typename Make>
  void estimate_by_rows(const std::vector<std::size_t>& lefts,
                        const std::vector<Block>& left_blocks,
                        const std::vector<std::size_t>& rights,
                        const std::vector<Block>& right_blocks, const Make& make) {
    const auto set_self = [&](std::size_t layer, const Block& block) {
      if (!layers_[layer].self->has_value()) {
        const double product = dot(block, block);
        *layers_[layer].self = SelfSums{product, squared(layer, layer, product)};
      }
    };
    for (std::size_t i = 0; i < lefts.size(); ++i) {
      set_self(lefts[i], left_blocks[i]);
    }
    for (std::size_t j = 0; j < rights.size(); ++j) {
      set_self(rights[j], right_blocks[j]);
    }
    for (std::size_t i = 0; i < lefts.size(); ++i) {
      const auto next = next_layer(lefts[i]);
      if (!next || !usable(*next)) {
        continue;
      }
      const auto among = std::find(lefts.begin(), lefts.end(), *next);
      const Block own = among == lefts.end() ? make(*next) : Block();
      const Block& block =
          among == lefts.end() ? own : left_blocks[static_cast<std::size_t>(among - lefts.begin())];
      set_self(*next, block);
      result_.adjacent[lefts[i]] = aligned(lefts[i], *next, dot(left_blocks[i], block));
    }
    for_products(lefts, left_blocks, rights, right_blocks,
                 [&](std::size_t i, std::size_t right, double product) {
                   set_pair(i, right - left_count_, product, squared(i, right, product));
                 });
  }

  /// Calls take(left layer, right layer, product) for every pair.
  template <typename Take>
  void for_products(const std::vector<std::size_t>& lefts, const std::vector<Block>& left_blocks,
                    const std::vector<std::size_t>& rights, const std::vector<Block>& right_blocks,
                    Take take) const {
    if (lefts.empty() || rights.empty()) {
      return;
    }
    const std::vector<double> products = vector_products(multiplier_, left_blocks, right_blocks);
    for (std::size_t i = 0; i < lefts.size(); ++i) {
      for (std::size_t j = 0; j < rights.size(); ++j) {
        take(lefts[i], rights[j], products[i * rights.size() + j]);
      }
    }
  }

  void permute_by_rows(const std::vector<std::size_t>& lefts, const std::vector<Block>& left_blocks,
                       const std::vector<std::size_t>& rights,
                       const std::vector<Block>& right_blocks) {
    const auto n = static_cast<std::size_t>(rows_);
    std::vector<Block> permuted(rights.size());
    for (std::int64_t draw = 0; draw < draws_.permutations; ++draw) {
      std::vector<std::size_t> order;
      for (const RowRun& run : permuted_runs(draw)) {
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
                   [&](std::size_t i, std::size_t right, double product) {
                     pair(i, right - left_count_).permuted.push_back(aligned(i, right, product));
                   });
    }
  }

  void resample(const std::vector<std::size_t>& lefts, const std::vector<Block>& left_blocks,
                const std::vector<std::size_t>& rights, const std::vector<Block>& right_blocks,
                RowRun rows, RowRun cols) {
    const auto draws = static_cast<std::size_t>(draws_.resamples);
    for (auto* sums : {&left_norms_, &right_norms_}) {
      sums->resize(layers_.size(), std::vector<double>(draws, 0.0));
    }
    for (std::vector<double>& sums : cross_) {
      sums.resize(draws, 0.0);
    }
    const double times = rows.first == cols.first ? 1.0 : 2.0;  // K_IJ stands for K_JI too
    std::vector<Block> weighted(lefts.size());
    for (std::size_t draw = 0; draw < draws; ++draw) {
      const DrawWeights weights = drawn_weights(draws_.groups, static_cast<std::int64_t>(draw));
      for_each_index(lefts.size() + rights.size(), threads_for(left_blocks.front().size()),
                     [&](std::size_t /*worker*/, std::size_t k) {
                       if (k < lefts.size()) {
                         weighted[k].resize(left_blocks[k].size());
                         left_norms_[lefts[k]][draw] +=
                             times *
                             weigh_block(left_blocks[k], weights, rows, cols, weighted[k].data());
                       } else {
                         const std::size_t j = k - lefts.size();
                         right_norms_[rights[j]][draw] +=
                             times * weigh_block(right_blocks[j], weights, rows, cols, nullptr);
                       }
                     });
      for_products(lefts, weighted, rights, right_blocks,
                   [&](std::size_t i, std::size_t right, double product) {
                     cross_[i * right_count_ + right - left_count_][draw] += times * product;
                   });
    }
  }

  void finish_bootstrap() {
    for (std::size_t i = 0; i < left_count_; ++i) {
      for (std::size_t j = 0; j < right_count_; ++j) {
        const std::vector<double>& products = cross_[i * right_count_ + j];
        if (!usable(i) || !usable(right_layer(j))) {
          continue;
        }
        for (std::size_t draw = 0; draw < products.size(); ++draw) {
          pair(i, j).resampled.push_back(measure::alignment(products[draw], left_norms_[i][draw],
                                                            right_norms_[right_layer(j)][draw]));
        }
      }
    }
  }

  const Multiplier& multiplier_;
  const CkaPlan& plan_;
  std::span<const std::int64_t> next_;
  const TileDraws& draws_;
  std::size_t left_count_, right_count_;
  std::vector<TileLayer> layers_;  ///< left, right, nexts
  std::int64_t rows_ = 0;
  std::vector<RowRun> whole_;
  TileResult result_;
  std::vector<std::vector<double>> cross_;                     ///< [left right][draw]
  std::vector<std::vector<double>> left_norms_, right_norms_;  ///< [layer][draw]
};

}  // namespace

TileResult measure_tile(const Multiplier& multiplier, const CkaPlan& plan,
                        std::span<const TileLayer> left, std::span<const TileLayer> right,
                        std::span<const TileLayer> nexts, std::span<const std::int64_t> next,
                        const TileDraws& draws) {
  expects(next.size() == left.size(), "a next layer, or none, for each of A");
  return TileMeasurer(multiplier, plan, left, right, nexts, next, draws).run();
}

}  // namespace vindex::run
