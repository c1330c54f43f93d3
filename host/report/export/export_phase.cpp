// Owns the export `phase-json`: the files of the MoE vindex builder's names, from whichever of the
// four kinds of file were given. The builder's exact keys are not public; those its documentation
// names (median_var64, q25_var64, q75_var64, ...) are used as named, the rest is documented in
// docs/files/results-file.md.
//   spectra: phase1_moe_svd.json, phase2_router_svd.json, moe_config.json
//   spectra, activations or cka: phase1_moe_svd_agg.json
//   routing: phase3_routing_stats.json
#include "export_phase.hpp"

#include "export_phase_aggregate.hpp"
#include "export_phase_weights.hpp"
#include "export_same_model.hpp"
#include "phase_sources.hpp"

#include "commands/token_tables/routing_cells.hpp"
#include "core/files/output_target.hpp"
#include "core/files/path_kind.hpp"
#include "report/text/text_sink.hpp"
#include "results/schema/schema.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <cmath>

namespace vindex::report {

namespace {

Json attributes_of(const results::ResultsView& routing) {
  Json out = Json::object();
  for (const results::RunAttribute& attribute : routing.attributes) {
    out[attribute.name] =
        std::visit([](const auto& value) { return Json(value); }, attribute.value);
  }
  return out;
}

Json cell_json(const results::CellColumn& column, double value) {
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

Json phase3_document(const results::ResultsView& routing) {
  Json out;
  out["schema"] = "vindex-phase3/1";
  out["model"] = routing.model;
  out["measured_from"] = {{"file", printable(routing.path)},
                          {"verb", results::writing_command(routing.schema)},
                          {"input", routing.model}};
  out["state"] = routing.state;
  out["settings"] = attributes_of(routing);
  out["null_of"] = "uniform routing of as many tokens";
  Json& all = out["layers"] = Json::object();
  std::vector<std::vector<double>> columns(engine::kRoutingCells.size());
  for (const results::ViewRow& row : routing.rows) {
    Json entry = {{"status", row.status}, {"tokens", row.rows}, {"n_experts", row.cols}};
    if (!row.reason.empty()) {
      entry["reason"] = row.reason;
    }
    for (std::size_t i = 0; i < engine::kRoutingCells.size(); ++i) {
      entry[std::string(engine::kRoutingCells[i].name)] =
          cell_json(engine::kRoutingCells[i], row.cells[i]);
      if (!std::isnan(row.cells[i])) {
        columns[i].push_back(row.cells[i]);
      }
    }
    entry["load"] = list_of(row.arrays[engine::routing_array("load")], row.cols);
    entry["mean_weight"] = list_of(row.arrays[engine::routing_array("mean_weight")], row.cols);
    all[std::to_string(row.layer)] = std::move(entry);
  }
  Json& summary = out["summary"] = Json::object();
  summary["layers"] = routing.rows_measured;
  for (const std::string_view name : {"load_cv", "load_entropy", "gini", "max_over_mean",
                                      "dead_experts", "router_entropy", "margin"}) {
    const std::vector<double>& values =
        columns[results::column_number(engine::kRoutingTable.cells, name)];
    add_quantiles(summary, std::string(name).c_str(), values);
  }
  return out;
}

void write_document(const std::string& folder, const char* name, const Json& document) {
  TextSink sink(folder + "/" + name);
  sink.write(document.dump(2) + "\n");
  sink.finish();
}

/// A published file of `schema` at `path`. Errors: FormatError E-RESULTS-KIND, UsageError
/// E-EXPORT-PART.
results::ResultsView published_cells(const std::string& path, results::FileSchema schema) {
  if (results::ResultsReader(path, schema).header().part) {
    throw UsageError("E-EXPORT-PART", printable(path) + " is a part of a run; merge it first");
  }
  return results::read_view(path);
}

/// Puts the file at `path` where `sources` has none of its kind yet.
void add_source(const std::string& path, results::FileSchema schema, PhaseSources& sources) {
  std::optional<results::ResultsView>& place =
      schema == results::FileSchema::kActivations ? sources.activations
      : schema == results::FileSchema::kCka       ? sources.cka
                                                  : sources.routing;
  if (place) {
    throw UsageError(
        "E-EXPORT-TWICE",
        fmt::format("{} is a second file of `vindex {}`; the first is {}", printable(path),
                    results::writing_command(schema), printable(place->path)));
  }
  place = published_cells(path, schema);
}

}  // namespace

void export_phase_json(ExportInput& input, const std::string& path, const PhaseInputs& others,
                       const std::string& folder, bool replace) {
  PhaseSources sources;
  std::map<std::string, std::string> paths = {
      {results::writing_command(input.reader.schema().id), path}};
  if (input.reader.schema().id == results::FileSchema::kResults) {
    sources.spectra = &input;
    sources.description = input.reader.description();
  } else {
    add_source(path, input.reader.schema().id, sources);
  }
  for (const auto& [other, schema] :
       {std::pair(others.activations, results::FileSchema::kActivations),
        std::pair(others.cka, results::FileSchema::kCka),
        std::pair(others.routing, results::FileSchema::kRouting)}) {
    if (!other.empty()) {
      add_source(other, schema, sources);
      paths.emplace(results::writing_command(schema), other);
    }
  }
  const Layers layers = sources.spectra == nullptr ? Layers() : by_layer(input.rows);
  const std::string compared = require_same_model(paths, sources, layers);
  std::vector<std::pair<const char*, Json>> documents;
  if (sources.spectra != nullptr) {
    documents.emplace_back("phase1_moe_svd.json", phase1_document(*sources.description, layers));
    documents.emplace_back("phase2_router_svd.json", phase2_document(*sources.description, layers));
    documents.emplace_back("moe_config.json", moe_config_document(*sources.description, layers));
  }
  if (sources.spectra != nullptr || sources.activations || sources.cka) {
    Json aggregate = phase1_aggregate_document(sources, layers);
    aggregate["same_model_by"] = compared;
    documents.emplace_back("phase1_moe_svd_agg.json", std::move(aggregate));
  }
  if (sources.routing) {
    documents.emplace_back("phase3_routing_stats.json", phase3_document(*sources.routing));
  }
  for (const auto& [name, document] : documents) {
    const std::string target = folder + "/" + name;
    for (const auto& [kind, source] : paths) {
      if (is_same_file(source, target)) {
        throw OutputError("E-OUT-INPUT", printable(target) + " is a file to be exported");
      }
    }
    require_free_target(target, replace);
  }
  make_output_folder(folder);
  for (const auto& [name, document] : documents) {
    write_document(folder, name, document);
  }
}

}  // namespace vindex::report
