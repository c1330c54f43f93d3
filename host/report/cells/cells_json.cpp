// Owns the members of the document of a file of cells, row by row.
#include "cells_json.hpp"

#include "core/json/json_document.hpp"
#include "results/schema/schema.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <variant>
#include <vector>

namespace vindex::report {

namespace {

Json row_json(const results::ResultsView& view, const std::vector<PresentCell>& cells,
              const results::ViewRow& row) {
  const results::CellTable& table = *results::schema_of(view.schema).cells;
  Json out = {
      {"tensor", row.tensor}, {"layer", row.layer},  {"block", model::block_name(row.block)},
      {"role", row.role},     {"rows", row.rows},    {"cols", row.cols},
      {"status", row.status}, {"reason", row.reason}};
  if (!row.other_tensor.empty()) {
    out["tensor_b"] = row.other_tensor;
    out["slice"] = row.slice;
    out["expert"] = row.expert;
    out["encoding_a"] = row.encoding;
    out["encoding_b"] = row.other_encoding;
  }
  for (const PresentCell& cell : cells) {
    const auto first = row.cells.begin() + static_cast<std::ptrdiff_t>(cell.place);
    out[cell.name] =
        cell.is_list
            ? Json(std::vector<double>(first, first + static_cast<std::ptrdiff_t>(cell.count)))
        : cell.is_count && !std::isnan(*first) ? Json(static_cast<std::int64_t>(*first))
                                               : Json(*first);
  }
  for (std::size_t i = 0; i < table.arrays.size(); ++i) {
    if (table.arrays[i].dims[1].empty() &&
        results::is_present(table.arrays[i], view.optional_columns)) {
      out[std::string(table.arrays[i].name)] =
          row.arrays[i].empty() ? Json(nullptr) : Json(row.arrays[i]);
    }
  }
  return out;
}

}  // namespace

std::string cells_json(const results::ResultsView& view, const TopRows& top) {
  Json out = {{"schema", fmt::format("vindex-{}-summary/1", results::writing_command(view.schema))},
              {"file", printable(view.path)},
              {"state", view.state},
              {"model", view.model}};
  if (!view.other_model.empty()) {
    out["model_b"] = view.other_model;
  }
  out["backend"] = view.backend;
  out["rows_total"] = view.rows_total;
  out["rows_measured"] = view.rows_measured;
  Json& attributes = out["attributes"] = Json::object();
  for (const results::RunAttribute& attribute : view.attributes) {
    attributes[attribute.name] =
        std::visit([](const auto& value) { return Json(value); }, attribute.value);
  }
  Json& scales = out["scales"] = Json::object();
  for (const auto& [name, values] : view.scales) {
    scales[name] = values.integers.empty() ? Json(values.doubles) : Json(values.integers);
  }
  out.update(summary_of(view).members);
  if (top.count > 0) {
    out["by"] = top.by;
    out["ascending"] = top.is_ascending;
  }
  const std::vector<PresentCell> cells = present_cells(view);
  out["rows"] = Json::list(view.rows, [&](const auto& row) { return row_json(view, cells, row); });
  return out.dump() + "\n";
}

}  // namespace vindex::report
