// The form of features, in chunks of whole groups.
#include "cka_jackknife.hpp"

#include "core/constants.hpp"
#include "core/integers.hpp"
#include "core/process/parallel.hpp"
#include "core/process/stop.hpp"
#include "statistics/cka/cka.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace vindex::commands {

namespace {

/// What a layer or a pair of layers sums over one group, chunk by chunk.
class FeatureJackknife {
 public:
  FeatureJackknife(const Multiplier& multiplier, std::span<const PassLayer> layers,
                   std::span<const PassPair> pairs, std::span<const CrossProduct> cross,
                   std::span<const engine::RowRun> groups)
      : multiplier_(multiplier), layers_(layers), pairs_(pairs), cross_(cross), groups_(groups) {
    rows_ = static_cast<std::int64_t>(layers.front().sums->row_norms.size());
    held_.resize(layers.size());
  }

  std::vector<ProductsWithout> run() {
    std::vector<ProductsWithout> out(pairs_.size(), ProductsWithout(groups_.size(), kNaN));
    sum_weighted();
    // Groups that fit kDeletedRows rows together, or one that does not alone.
    for (std::size_t first = 0; first < groups_.size();) {
      std::size_t end = first + 1;
      std::int64_t rows = groups_[first].count;
      while (end < groups_.size() && rows + groups_[end].count <= kDeletedRows) {
        rows += groups_[end++].count;
      }
      add_chunk(first, end, out);
      first = end;
    }
    return out;
  }

 private:
  /// Of a layer, of the groups of a chunk.
  struct LayerSide {
    std::vector<double> sums;   ///< s of each group, [group, width]
    std::vector<double> along;  ///< x_i s of each row
  };
  struct Held {
    engine::RowRun run;
    std::vector<float> values;
  };
  /// What sum_weighted() keeps: sum_i l_i x_i and sum_i k_i y_i of a pair.
  struct Weighted {
    std::vector<double> left, right;
    double diagonal = 0.0;  ///< sum_i k_i l_i
  };

  std::int64_t width(std::size_t layer) const { return layers_[layer].rows->cols(); }
  double norm(std::size_t layer, std::int64_t row) const {
    return layers_[layer].sums->row_norms[as_size(row)];
  }
  static engine::RowRun piece(engine::RowRun rows, std::int64_t at) {
    return {rows.first + at, std::min(kDeletedRows, rows.count - at)};
  }
  /// Rows of a layer, read again only where they are not those of the last call.
  std::span<const float> rows_of(std::size_t layer, engine::RowRun run) {
    Held& held = held_[layer];
    if (held.run.first != run.first || held.run.count != run.count) {
      held.values = centred_rows(layers_[layer], run);
      held.run = run;
    }
    return held.values;
  }

  static void add_scaled(const float* row, double by, std::vector<double>& sums, std::size_t at,
                         std::size_t width) {
    double* const out = sums.data() + at;
    for (std::size_t j = 0; j < width; ++j) {
      out[j] += by * static_cast<double>(row[j]);
    }
  }
  static double mixed_dot(const double* a, const float* b, std::size_t count) {
    double sum = 0.0;
    for (std::size_t k = 0; k < count; ++k) {
      sum += a[k] * static_cast<double>(b[k]);
    }
    return sum;
  }

  void sum_weighted() {
    weighted_.resize(pairs_.size());
    for (std::size_t p = 0; p < pairs_.size(); ++p) {
      weighted_[p].left.assign(as_size(width(pairs_[p].left)), 0.0);
      weighted_[p].right.assign(as_size(width(pairs_[p].right)), 0.0);
      weighted_[p].diagonal =
          norms_product(*layers_[pairs_[p].left].sums, *layers_[pairs_[p].right].sums,
                        std::vector<engine::RowRun>{{0, rows_}});
    }
    for (std::int64_t at = 0; at < rows_; at += kDeletedRows) {
      throw_if_stopped(multiplier_.stop);
      const engine::RowRun run = piece({0, rows_}, at);
      for (std::size_t l = 0; l < layers_.size(); ++l) {
        rows_of(l, run);
      }
      for_each_index(pairs_.size(), thread_count(0), [&](std::size_t /*worker*/, std::size_t p) {
        const auto [left, right] = pairs_[p];
        const std::size_t d = as_size(width(left));
        const std::size_t e = as_size(width(right));
        for (std::int64_t i = 0; i < run.count; ++i) {
          add_scaled(held_[left].values.data() + as_size(i) * d, norm(right, run.first + i),
                     weighted_[p].left, 0, d);
          if (left != right) {
            add_scaled(held_[right].values.data() + as_size(i) * e, norm(left, run.first + i),
                       weighted_[p].right, 0, e);
          }
        }
        if (left == right) {
          weighted_[p].right = weighted_[p].left;
        }
      });
    }
  }

  /// Calls body(group of the chunk, row, its values) for the rows of `run`.
  template <typename Body>
  void for_rows(std::size_t layer, std::size_t first, engine::RowRun run, const Body& body) {
    const std::span<const float> values = rows_of(layer, run);
    std::size_t group = first;
    for (std::int64_t i = 0; i < run.count; ++i) {
      while (run.first + i >= groups_[group].first + groups_[group].count) {
        ++group;
      }
      body(group - first, run.first + i, values.data() + as_size(i) * as_size(width(layer)));
    }
  }

  void add_chunk(std::size_t first, std::size_t end, std::vector<ProductsWithout>& out) {
    const engine::RowRun rows{
        groups_[first].first,
        groups_[end - 1].first + groups_[end - 1].count - groups_[first].first};
    sides_.assign(layers_.size(), {});
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      sum_groups(l, first, end, rows);
    }
    std::vector<std::vector<double>> within(pairs_.size(), std::vector<double>(end - first, 0.0));
    for (std::size_t group = first; group < end; ++group) {
      add_within(group, group - first, within);
    }
    for (std::size_t p = 0; p < pairs_.size(); ++p) {
      const Through through = through_product(p, first, end, rows);
      for (std::size_t group = first; group < end; ++group) {
        const std::size_t at = group - first;
        if (rows_ - groups_[group].count >= statistics::kMinCkaRows) {
          out[p][group] =
              without(p, group, at, rows.first, through.rows[at], through.sums[at], within[p][at]);
        }
      }
    }
  }

  void sum_groups(std::size_t layer, std::size_t first, std::size_t end, engine::RowRun rows) {
    const std::size_t d = as_size(width(layer));
    LayerSide& side = sides_[layer];
    side.sums.assign((end - first) * d, 0.0);
    side.along.assign(as_size(rows.count), 0.0);
    for (std::int64_t at = 0; at < rows.count; at += kDeletedRows) {
      for_rows(layer, first, piece(rows, at),
               [&](std::size_t group, std::int64_t /*row*/, const float* values) {
                 add_scaled(values, 1.0, side.sums, group * d, d);
               });
    }
    for (std::int64_t at = 0; at < rows.count; at += kDeletedRows) {
      for_rows(layer, first, piece(rows, at),
               [&](std::size_t group, std::int64_t row, const float* values) {
                 side.along[as_size(row - rows.first)] =
                     mixed_dot(side.sums.data() + group * d, values, d);
               });
    }
  }

  /// sum_{i, j in the group} K_ij L_ij of every pair.
  void add_within(std::size_t group, std::size_t at, std::vector<std::vector<double>>& within) {
    const engine::RowRun rows = groups_[group];
    if (rows.count == 1) {
      for (std::size_t p = 0; p < pairs_.size(); ++p) {
        within[p][at] = norm(pairs_[p].left, rows.first) * norm(pairs_[p].right, rows.first);
      }
      return;
    }
    std::vector<std::vector<double>> grams(layers_.size());
    for (std::int64_t i = 0; i < rows.count; i += kDeletedRows) {
      for (std::int64_t j = i; j < rows.count; j += kDeletedRows) {
        for (std::size_t l = 0; l < layers_.size(); ++l) {
          const std::vector<float> left = centred_rows_within(l, piece(rows, i));
          grams[l] = i == j ? row_products(multiplier_, left, {}, width(l))
                            : row_products(multiplier_, left,
                                           centred_rows_within(l, piece(rows, j)), width(l));
        }
        for (std::size_t p = 0; p < pairs_.size(); ++p) {
          const std::vector<double>& left = grams[pairs_[p].left];
          within[p][at] +=
              (i == j ? 1.0 : 2.0) *
              std::inner_product(left.begin(), left.end(), grams[pairs_[p].right].begin(), 0.0);
        }
      }
    }
  }
  /// Out of what is held, where it is.
  std::vector<float> centred_rows_within(std::size_t layer, engine::RowRun run) {
    const Held& held = held_[layer];
    if (run.first < held.run.first || run.first + run.count > held.run.first + held.run.count) {
      return centred_rows(layers_[layer], run);
    }
    const std::size_t d = as_size(width(layer));
    const auto begin =
        held.values.begin() + (run.first - held.run.first) * static_cast<std::int64_t>(d);
    return {begin, begin + run.count * static_cast<std::int64_t>(d)};
  }

  /// Of every group of a chunk: sum over its rows of x_i^T M y_i, and s^T M t.
  struct Through {
    std::vector<double> rows, sums;
  };
  Through through_product(std::size_t pair, std::size_t first, std::size_t end,
                          engine::RowRun rows) {
    const auto [left, right] = pairs_[pair];
    const std::size_t e = as_size(width(right));
    const std::vector<float>& product = cross_[pair].transposed;
    const double scale = cross_[pair].scale;
    Through out;
    out.rows.assign(end - first, 0.0);
    for (std::int64_t at = 0; at < rows.count; at += kDeletedRows) {
      const engine::RowRun run = piece(rows, at);
      const std::vector<double> turned =
          row_products(multiplier_, rows_of(left, run), product, width(left));
      for_rows(right, first, run, [&](std::size_t group, std::int64_t row, const float* values) {
        out.rows[group] +=
            scale * mixed_dot(turned.data() + as_size(row - run.first) * e, values, e);
      });
    }
    const std::vector<double>& sums = sides_[left].sums;
    if (rows.count == static_cast<std::int64_t>(end - first)) {
      out.sums = out.rows;  // every group is a row
      return out;
    }
    const std::vector<float> as_rows(sums.begin(), sums.end());
    const std::vector<double> turned = row_products(multiplier_, as_rows, product, width(left));
    for (std::size_t group = 0; group < end - first; ++group) {
      const double* const other = sides_[right].sums.data() + group * e;
      out.sums.push_back(scale *
                         std::inner_product(other, other + e, turned.data() + group * e, 0.0));
    }
    return out;
  }

  double without(std::size_t pair, std::size_t group, std::size_t at, std::int64_t chunk_first,
                 double through_rows, double through_sums, double within) const {
    const auto [left, right] = pairs_[pair];
    const engine::RowRun run = groups_[group];
    const auto left_over = static_cast<double>(rows_ - run.count);
    const std::size_t d = as_size(width(left));
    const std::size_t e = as_size(width(right));
    const double* const s = sides_[left].sums.data() + at * d;
    const double* const t = sides_[right].sums.data() + at * e;
    const double ss = std::inner_product(s, s + d, s, 0.0);
    const double tt = std::inner_product(t, t + e, t, 0.0);
    // Sums over the group: of norms, their products, and of x_i s and y_i t with them.
    double k = 0.0, l = 0.0, kl = 0.0, k_yt = 0.0, l_xs = 0.0, xs_yt = 0.0;
    for (std::int64_t i = run.first; i < run.first + run.count; ++i) {
      const double k_i = norm(left, i);
      const double l_i = norm(right, i);
      const double xs = sides_[left].along[as_size(i - chunk_first)];
      const double yt = sides_[right].along[as_size(i - chunk_first)];
      k += k_i;
      l += l_i;
      kl += k_i * l_i;
      k_yt += k_i * yt;
      l_xs += l_i * xs;
      xs_yt += xs * yt;
    }
    const Weighted& all = weighted_[pair];
    k_yt = std::inner_product(t, t + e, all.right.begin(), 0.0) - k_yt;  // now over the others
    l_xs = std::inner_product(s, s + d, all.left.begin(), 0.0) - l_xs;
    k = layers_[left].sums->trace - k;
    l = layers_[right].sums->trace - l;
    const double step = 1.0 / left_over;  // the means of the others are -s, -t times it
    const double squared = cross_[pair].squared_norm - 2.0 * through_rows + within -
                           2.0 * step * (through_sums - xs_yt) + step * step * ss * tt;
    const statistics::KernelSums sums{
        .rows = rows_ - run.count,
        .trace_left = k - step * ss,
        .trace_right = l - step * tt,
        .diagonal = all.diagonal - kl + 2.0 * step * (k_yt + l_xs) +
                    step * step * (4.0 * (through_sums - xs_yt) + tt * k + ss * l) -
                    3.0 * step * step * step * ss * tt};
    return statistics::u_centred_product(sums, squared);
  }

  const Multiplier& multiplier_;
  std::span<const PassLayer> layers_;
  std::span<const PassPair> pairs_;
  std::span<const CrossProduct> cross_;
  std::span<const engine::RowRun> groups_;
  std::int64_t rows_ = 0;
  std::vector<Held> held_;
  std::vector<Weighted> weighted_;
  std::vector<LayerSide> sides_;
};

}  // namespace

std::vector<ProductsWithout> products_without(const Multiplier& multiplier,
                                              std::span<const PassLayer> layers,
                                              std::span<const PassPair> pairs,
                                              std::span<const CrossProduct> cross,
                                              std::span<const engine::RowRun> groups) {
  return FeatureJackknife(multiplier, layers, pairs, cross, groups).run();
}

}  // namespace vindex::commands
