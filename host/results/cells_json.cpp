// Owns rows of cells as JSON, for `show --json`.
#include "schema.hpp"

#include <vindex/core/error.hpp>
#include <vindex/core/json_document.hpp>
#include <vindex/results/shown_cells.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace vindex::results {

namespace {

Json row_json(const ShownCells& shown, const ShownRow& row) {
  const CellTable& table = *schema_of(shown.schema).cells;
  Json out = {
      {"tensor", row.tensor}, {"layer", row.layer},  {"block", model::block_name(row.block)},
      {"role", row.role},     {"rows", row.rows},    {"cols", row.cols},
      {"status", row.status}, {"reason", row.reason}};
  for (std::size_t i = 0; i < table.cells.size(); ++i) {
    const CellColumn& cell = table.cells[i];
    if (is_present(cell, shown.optional_columns)) {
      out[std::string(cell.name)] = cell.integer && !std::isnan(row.cells[i])
                                        ? Json(static_cast<std::int64_t>(row.cells[i]))
                                        : Json(row.cells[i]);
    }
  }
  for (std::size_t i = 0; i < table.arrays.size(); ++i) {
    if (table.arrays[i].dims[1].empty() && is_present(table.arrays[i], shown.optional_columns)) {
      out[std::string(table.arrays[i].name)] =
          row.arrays[i].empty() ? Json(nullptr) : Json(row.arrays[i]);
    }
  }
  return out;
}

Json matched_json(const std::vector<MatchedLayer>& matched) {
  Json out = Json::array();
  for (const MatchedLayer& layer : matched) {
    out.push_back({{"depth", layer.depth},
                   {"layer_a", layer.layer_a},
                   {"layer_b", layer.layer_b},
                   {"cka", layer.cka},
                   {"cka_biased", layer.cka_biased},
                   {"null_q95", layer.null_q95},
                   {"p", layer.p}});
  }
  return out;
}

}  // namespace

std::string cells_json(const ShownCells& shown) {
  Json out = {{"schema", fmt::format("vindex-{}-summary/1", writing_verb(shown.schema))},
              {"file", printable(shown.path)},
              {"state", shown.state},
              {"model", shown.model}};
  if (!shown.other_model.empty()) {
    out["model_b"] = shown.other_model;
  }
  out["backend"] = shown.backend;
  out["rows_total"] = shown.rows_total;
  out["rows_measured"] = shown.rows_measured;
  Json& attributes = out["attributes"] = Json::object();
  for (const RunAttribute& attribute : shown.attributes) {
    if (const auto* const value = std::get_if<double>(&attribute.value)) {
      attributes[attribute.name] = *value;
    } else if (const auto* const integer = std::get_if<std::int64_t>(&attribute.value)) {
      attributes[attribute.name] = *integer;
    } else {
      attributes[attribute.name] = std::get<std::string>(attribute.value);
    }
  }
  Json& scales = out["scales"] = Json::object();
  for (const auto& [name, values] : shown.scales) {
    scales[name] = values.integers.empty() ? Json(values.doubles) : Json(values.integers);
  }
  if (shown.schema == FileSchema::kCka) {
    out["matched"] = matched_json(shown.matched);
    out["stages"] = shown.stages ? Json{{"count", shown.stages->count},
                                        {"breaks", shown.stage_breaks},
                                        {"threshold", shown.stages->threshold},
                                        {"median", shown.stages->median},
                                        {"mad", shown.stages->mad}}
                                 : Json(nullptr);
  }
  Json& rows = out["rows"] = Json::array();
  for (const ShownRow& row : shown.rows) {
    rows.push_back(row_json(shown, row));
  }
  return out.dump() + "\n";
}

}  // namespace vindex::results
