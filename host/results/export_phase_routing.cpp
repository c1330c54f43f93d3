// Owns phase3_routing_stats.json: where routers send tokens, from a file of `vindex routing`.
#include "export_phase.hpp"
#include "schema.hpp"

#include <vindex/core/error.hpp>
#include <vindex/results/routing_cells.hpp>

#include <fmt/format.h>

#include <cmath>

namespace vindex::results {

namespace {

Json attributes_of(const ShownCells& routing) {
  Json out = Json::object();
  for (const RunAttribute& attribute : routing.attributes) {
    if (const auto* const number = std::get_if<double>(&attribute.value)) {
      out[attribute.name] = *number;
    } else if (const auto* const integer = std::get_if<std::int64_t>(&attribute.value)) {
      out[attribute.name] = *integer;
    } else {
      out[attribute.name] = std::get<std::string>(attribute.value);
    }
  }
  return out;
}

Json cell_json(const CellColumn& column, double value) {
  return column.integer && std::isfinite(value) ? Json(static_cast<std::int64_t>(value))
                                                : Json(value);
}

/// The first `experts` values: what is beyond is padding.
Json list_of(const std::vector<double>& values, std::int64_t experts) {
  Json out = Json::array();
  for (std::size_t i = 0; i < values.size() && static_cast<std::int64_t>(i) < experts; ++i) {
    out.push_back(Json(values[i]));
  }
  return out;
}

}  // namespace

Json phase3_document(const ShownCells& routing) {
  Json out;
  out["schema"] = "vindex-phase3/1";
  out["model"] = routing.model;
  out["measured_from"] = {{"file", printable(routing.path)},
                          {"verb", writing_verb(routing.schema)},
                          {"input", routing.model}};
  out["state"] = routing.state;
  out["settings"] = attributes_of(routing);
  out["null_of"] = "uniform routing of as many tokens";
  Json& all = out["layers"] = Json::object();
  std::vector<std::vector<double>> columns(kRoutingCells.size());
  for (const ShownRow& row : routing.rows) {
    Json entry = {{"status", row.status}, {"tokens", row.rows}, {"n_experts", row.cols}};
    if (!row.reason.empty()) {
      entry["reason"] = row.reason;
    }
    for (std::size_t i = 0; i < kRoutingCells.size(); ++i) {
      entry[std::string(kRoutingCells[i].name)] = cell_json(kRoutingCells[i], row.cells[i]);
      if (!std::isnan(row.cells[i])) {
        columns[i].push_back(row.cells[i]);
      }
    }
    entry["load"] = list_of(row.arrays[routing_array("load")], row.cols);
    entry["mean_weight"] = list_of(row.arrays[routing_array("mean_weight")], row.cols);
    all[std::to_string(row.layer)] = std::move(entry);
  }
  Json& summary = out["summary"] = Json::object();
  summary["layers"] = routing.rows_measured;
  for (const std::string_view name : {"load_cv", "load_entropy", "gini", "max_over_mean",
                                      "dead_experts", "router_entropy", "margin"}) {
    const std::vector<double>& values = columns[column_number(kRoutingTable.cells, name)];
    add_quantiles(summary, std::string(name).c_str(), values);
  }
  return out;
}

}  // namespace vindex::results
