// Owns making those tables from a file's rows and writing them.
#include "matched_layers.hpp"

#include "cka_cells.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

namespace vindex::results {

std::vector<MatchedLayer> matched_layers(const FileDescription& description,
                                         std::span<const StoredRow* const> rows, BulkSource& bulk) {
  const auto scale = description.scales.find("layers_b");
  if (scale == description.scales.end()) {
    return {};
  }
  const std::vector<std::int64_t>& layers_b = scale->second.integers;
  std::vector<MatchedLayer> out;
  for (const measure::DepthMatch& match : measure::match_depths(rows.size(), layers_b.size())) {
    const StoredRow& row = *rows[match.a];
    const auto value = [&](std::size_t array) {
      const ArrayCell cell = bulk.array(row, array);
      return match.b < cell.doubles.size() ? cell.doubles[match.b] : std::nan("");
    };
    out.push_back({.depth = match.depth,
                   .layer_a = row.layer,
                   .layer_b = layers_b[match.b],
                   .cka = value(cka_array("cka")),
                   .cka_biased = value(cka_array("cka_biased")),
                   .null_q95 = value(cka_array("null_q95")),
                   .p = value(cka_array("p"))});
  }
  return out;
}

std::optional<measure::Stages> stages_of(std::span<const StoredRow* const> rows) {
  std::vector<measure::Adjacent> adjacent;
  for (std::size_t i = 0; i + 1 < rows.size(); ++i) {
    const std::vector<double>& cells = rows[i]->cells;
    const auto value = [&](std::size_t cell) {
      return cell < cells.size() ? cells[cell] : std::nan("");
    };
    adjacent.push_back({value(cka_cell("adjacent_cka")), value(cka_cell("adjacent_cka_se"))});
  }
  return measure::count_stages(adjacent);
}

std::vector<std::int32_t> break_layers(const measure::Stages& stages,
                                       std::span<const StoredRow* const> rows) {
  std::vector<std::int32_t> layers;
  for (const std::size_t position : stages.breaks) {
    layers.push_back(rows[position]->layer);
  }
  return layers;
}

SideTable matched_table(const std::vector<MatchedLayer>& matched) {
  SideTable table{.group = "/matched", .dimension = "entry", .long_name = "row number"};
  const auto add = [&](const char* name, const char* units, const char* long_name, auto member) {
    add_column(table, matched, name, units, long_name, member);
  };
  add("depth", "1", "relative depth, 0 the first layer and 1 the last", &MatchedLayer::depth);
  add("layer_a", "", "layer of A at that depth", &MatchedLayer::layer_a);
  add("layer_b", "", "layer of B at that depth", &MatchedLayer::layer_b);
  add("cka", "1", "unbiased linear CKA of the two", &MatchedLayer::cka);
  add("cka_biased", "1", "the biased estimate", &MatchedLayer::cka_biased);
  add("null_q95", "1", "95 % quantile of cka over permutations", &MatchedLayer::null_q95);
  add("p", "1", "share of permutations with at least this cka", &MatchedLayer::p);
  return table;
}

void write_matched(h5::File& file, const FileDescription& description,
                   std::span<const StoredRow* const> rows, BulkSource& bulk) {
  write_side_table(file, matched_table(matched_layers(description, rows, bulk)));
  if (const auto stages = stages_of(rows)) {
    file.set_attribute("/", "stages", stages->count);
    file.set_attribute("/", "stages_threshold", stages->threshold);
    file.set_attribute("/", "stages_median", stages->median);
    file.set_attribute("/", "stages_mad", stages->mad);
    file.set_attribute("/", "stages_breaks",
                       fmt::format("{}", fmt::join(break_layers(*stages, rows), " ")));
  }
}

}  // namespace vindex::results
