// Owns the lines of `show` about an adapter: the effective ranks of its products.
#include "ranks_table.hpp"

#include "metric_groups.hpp"

#include "core/text/text_table.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace vindex::report {

namespace {

struct RankMetric {
  const char *name, *heading;
  const char* format;
};
constexpr std::array<RankMetric, 3> kRanks = {{{"numerical_rank", "rank", "{:g}"},
                                               {"effective_rank", "eff.rank", "{:.2f}"},
                                               {"stable_rank", "stable", "{:.2f}"}}};

std::string number_text(const char* format, double value) {
  return std::isnan(value) ? "-" : fmt::format(fmt::runtime(format), value);
}

/// "4", or "2..8" where the products of a group differ.
std::string range_text(const RankMetric& metric, const MetricGroup& group) {
  const std::string least = number_text(metric.format, group.min);
  const std::string most = number_text(metric.format, group.max);
  return least == most ? least : least + ".." + most;
}

/// `all`: one SpectraView for each of kRanks, of the same rows.
std::string ranks_table(const std::vector<SpectraView>& all, bool by_layer, std::size_t width) {
  constexpr TextColumn kRankNumber{.right = true};
  constexpr TextColumn kRankClose{.right = true, .is_close = true};
  std::vector<std::vector<std::string>> cells = {{"block", "role", "n"}};
  std::vector<TextColumn> layout = {
      {.min_width = 9, .keep = Keep::kStart}, {.min_width = 8}, kRankNumber};
  if (by_layer) {
    cells.front().insert(cells.front().begin(), "layer");
    layout.insert(layout.begin(), kRankNumber);
  }
  for (const RankMetric& metric : kRanks) {
    cells.front().insert(cells.front().end(), {metric.heading, "noise"});
    layout.insert(layout.end(), {kRankNumber, kRankClose});
  }
  std::vector<std::vector<MetricGroup>> groups;
  for (const SpectraView& view : all) {
    std::vector<MatrixView> matrices = view.matrices;
    for (MatrixView& matrix : matrices) {
      matrix.layer = by_layer ? matrix.layer : -1;
    }
    groups.push_back(metric_groups(matrices));
  }
  for (std::size_t i = 0; i < groups.front().size(); ++i) {
    const MetricGroup& first = groups.front()[i];
    std::vector<std::string> line = {std::string(model::block_name(first.block)),
                                     printable(first.role), std::to_string(first.count)};
    if (by_layer) {
      line.insert(line.begin(), first.layer < 0 ? "-" : std::to_string(first.layer));
    }
    for (std::size_t metric = 0; metric < kRanks.size(); ++metric) {
      const MetricGroup& group = groups[metric][i];
      line.push_back(range_text(kRanks[metric], group));
      line.push_back(number_text(kRanks[metric].format, group.null));
    }
    cells.push_back(std::move(line));
  }
  return table_text(cells, layout, width);
}

}  // namespace

std::string ranks_text(const std::string& path, const ShowQuery& query, std::size_t width) {
  constexpr std::size_t kMostLayers = 24;  // more lines are no answer
  std::vector<SpectraView> all;
  for (const RankMetric& metric : kRanks) {
    ShowQuery one = query;
    one.metric = metric.name;
    all.push_back(read_spectra_view(path, one));
  }
  std::string text = ranks_table(all, false, width);
  const bool is_chosen = !query.selection.layers.empty();
  if (is_chosen || metric_groups(all.front().matrices).size() <= kMostLayers) {
    text += "\n" + ranks_table(all, true, width);
  } else {
    text += "(--layer chooses layers; --top ranks the products)\n";
  }
  return text +
         wrapped_text(
             "smallest..largest of what each pair adds, s B A; rank: above rounding, "
             "noise: of full factors; eff.rank: exponential of the entropy of the squared "
             "singular values, stable: squared norm over the largest; noise: of random "
             "factors of those shapes (- where shapes differ)",
             width, 2) +
         "\n";
}

}  // namespace vindex::report
