// Owns finding them from a file's rows, and the way to what a file says of them and back.
#include "cka_findings.hpp"

#include "cka_cells.hpp"

#include "core/constants.hpp"
#include "core/text/text_parts.hpp"
#include "statistics/layers/layer_statistics.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>
#include <variant>

namespace vindex::commands {

namespace {

std::vector<MatchedLayer> matched_layers(const results::FileDescription& description,
                                         std::span<const results::StoredRow* const> rows,
                                         results::BulkSource& bulk) {
  const auto scale = description.scales.find("layers_b");
  if (scale == description.scales.end()) {
    return {};
  }
  const std::vector<std::int64_t>& layers_b = scale->second.integers;
  std::vector<MatchedLayer> out;
  for (const statistics::DepthMatch& match :
       statistics::match_depths(rows.size(), layers_b.size())) {
    const results::StoredRow& row = *rows[match.a];
    const auto value = [&](std::size_t array) {
      const results::ArrayCell cell = bulk.array(row, array);
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

std::optional<statistics::Stages> stages_of(std::span<const results::StoredRow* const> rows) {
  std::vector<statistics::Adjacent> adjacent;
  for (std::size_t i = 0; i + 1 < rows.size(); ++i) {
    const std::vector<double>& cells = rows[i]->cells;
    const auto value = [&](std::size_t cell) {
      return cell < cells.size() ? cells[cell] : std::nan("");
    };
    adjacent.push_back({value(cka_cell("adjacent_cka")), value(cka_cell("adjacent_cka_se"))});
  }
  return statistics::count_stages(adjacent);
}

std::vector<std::int32_t> break_layers(const statistics::Stages& stages,
                                       std::span<const results::StoredRow* const> rows) {
  std::vector<std::int32_t> layers;
  for (const std::size_t position : stages.breaks) {
    layers.push_back(rows[position]->layer);
  }
  return layers;
}

results::SideTable matched_table(const std::vector<MatchedLayer>& matched) {
  results::SideTable table{.group = "/matched", .dimension = "entry", .long_name = "row number"};
  const auto add = [&](const char* name, const char* units, const char* long_name, auto member) {
    results::add_column(table, matched, name, units, long_name, member);
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

/// Six digits: to be drawn and read; breaks are judged before.
std::string limits_text(const std::vector<double>& limits) {
  std::string text;
  for (const double limit : limits) {
    text += fmt::format("{}{:.6g}", text.empty() ? "" : " ", limit);
  }
  return text;
}

std::vector<double> limits_of(const std::string& text) {
  std::vector<double> limits;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    limits.push_back(whole_number<double>(word).value_or(kNaN));
  }
  return limits;
}

/// Column `name` of `table`; both are ours.
template <typename T>
const std::vector<T>& column_of(const results::SideTable& table, std::string_view name) {
  const auto found = std::find_if(table.columns.begin(), table.columns.end(),
                                  [&](const auto& column) { return column.name == name; });
  expects(found != table.columns.end(), "a column of /matched/");
  return std::get<std::vector<T>>(found->values);
}

}  // namespace

CkaFindings cka_findings(const results::FileDescription& description,
                         std::span<const results::StoredRow* const> rows,
                         results::BulkSource& bulk) {
  CkaFindings findings;
  findings.matched = matched_layers(description, rows, bulk);
  findings.stages = stages_of(rows);
  if (findings.stages) {
    findings.stage_breaks = break_layers(*findings.stages, rows);
  }
  return findings;
}

results::SideTables beside_of(const CkaFindings& findings) {
  results::SideTables beside{.tables = {matched_table(findings.matched)}};
  if (const auto& stages = findings.stages) {
    beside.attributes = {
        {"stages", stages->count},
        {"stages_limits", limits_text(stages->limits)},
        {"stages_median", stages->median},
        {"stages_mad", stages->mad},
        {"stages_breaks", fmt::format("{}", fmt::join(findings.stage_breaks, " "))}};
  }
  return beside;
}

CkaFindings findings_of(const results::SideTables& beside) {
  CkaFindings findings;
  const results::SideTable& table = beside.tables.front();
  for (std::size_t i = 0; i < table.rows; ++i) {
    const auto number = [&](const char* name) { return column_of<double>(table, name)[i]; };
    findings.matched.push_back({.depth = number("depth"),
                                .layer_a = column_of<std::int64_t>(table, "layer_a")[i],
                                .layer_b = column_of<std::int64_t>(table, "layer_b")[i],
                                .cka = number("cka"),
                                .cka_biased = number("cka_biased"),
                                .null_q95 = number("null_q95"),
                                .p = number("p")});
  }
  if (!beside.attributes.empty()) {
    const auto text = [&](std::size_t i) -> const std::string& {
      return std::get<std::string>(beside.attributes.at(i).value);
    };
    statistics::Stages& stages = findings.stages.emplace();
    stages.count = std::get<std::int64_t>(beside.attributes.at(0).value);
    stages.limits = limits_of(text(1));
    stages.median = std::get<double>(beside.attributes.at(2).value);
    stages.mad = std::get<double>(beside.attributes.at(3).value);
    std::istringstream breaks(text(4));
    for (std::int32_t layer = 0; breaks >> layer;) {
      findings.stage_breaks.push_back(layer);
    }
  }
  return findings;
}

}  // namespace vindex::commands
