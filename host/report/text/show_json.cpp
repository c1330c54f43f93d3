// Owns the text of `show --json` for programs: one document, schema "vindex-show/1", and of rows of
// cells theirs.
#include "cells_text.hpp"
#include "shown_spectra.hpp"

#include "core/json/json_document.hpp"
#include "results/schema/schema.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

namespace vindex::report {

namespace {

void add_estimate(Json& to, const char* name, const statistics::Estimate& estimate) {
  to[fmt::format("{}_se", name)] = estimate.error;
  to[fmt::format("{}_low", name)] = estimate.low;
  to[fmt::format("{}_high", name)] = estimate.high;
}

Json head(const Shown& shown) {
  Json out = {{"schema", "vindex-show/1"},
              {"file", shown.path},
              {"state", shown.state},
              {"table", model::table_name(shown.table)},
              {"model", shown.model},
              {"mode", shown.mode},
              {"backend", shown.backend},
              {"matrices_total", shown.matrices_total},
              {"matrices_measured", shown.matrices_measured},
              {"metric", shown.metric.name},
              {"k", shown.metric.k ? Json(*shown.metric.k) : Json(nullptr)}};
  if (shown.n_total > 0) {
    out["n_total"] = shown.n_total;
  }
  return out;
}

void add_numbers(Json& to, const ShownMetric& metric, const MetricNumbers& numbers) {
  to["value"] = numbers.value;
  if (metric.has_null) {
    to["null"] = numbers.null;
    to["difference"] = Json(numbers.difference());
    to["ratio"] = Json(numbers.ratio());
  }
  if (metric.has_sign_flip) {
    to["signflip"] = numbers.sign_flip;
  }
  if (metric.has_spread) {
    to["signflip_std"] = numbers.sign_flip_std;
    to["signflip_z"] = numbers.sign_flip_z;
    to["signflip_p"] = numbers.sign_flip_p;
  }
}

Json matrix_json(const Shown& shown, const ShownMatrix& matrix) {
  Json out = {{"tensor", matrix.tensor},
              {"slice", matrix.slice},
              {"layer", matrix.layer},
              {"expert", matrix.expert},
              {"block", model::block_name(matrix.block)},
              {"role", matrix.role},
              {"rows", matrix.rows},
              {"cols", matrix.cols},
              {"encoding", matrix.encoding}};
  if (shown.metric.is_by_k()) {
    out["k"] = matrix.k > 0 ? Json(matrix.k) : Json(nullptr);
  }
  add_numbers(out, shown.metric, matrix.numbers);
  return out;
}

/// Texts of a file may be no UTF-8 where something else wrote them.
std::string text_of(const Json& document) { return document.dump(2) + "\n"; }

}  // namespace

std::string groups_json(const Shown& shown) {
  Json document = head(shown);
  Json groups = Json::array();
  for (const ShownGroup& group : shown_groups(shown.matrices)) {
    Json one = {{"layer", group.layer},
                {"block", model::block_name(group.block)},
                {"role", group.role},
                {"count", group.count},
                {"values", group.values}};
    if (shown.metric.is_by_k()) {
      one["k"] = group.k ? Json(*group.k) : Json(nullptr);
    }
    one["median"] = group.median;
    one["q25"] = group.q25;
    one["q75"] = group.q75;
    one["min"] = group.min;
    one["max"] = group.max;
    if (group.n_total > 0) {
      one["n_measured"] = group.n_measured;
      one["n_total"] = group.n_total;
      one["mean"] = group.estimates.mean.value;
      add_estimate(one, "mean", group.estimates.mean);
      add_estimate(one, "median", group.estimates.median);
      add_estimate(one, "q25", group.estimates.q25);
      add_estimate(one, "q75", group.estimates.q75);
    }
    if (shown.metric.has_null) {
      one["null"] = group.null;
      one["difference"] = group.difference;
      one["ratio"] = group.ratio;
    }
    if (shown.metric.has_sign_flip) {
      one["signflip"] = group.sign_flip;
    }
    if (shown.metric.has_spread) {
      one["signflip_z"] = group.sign_flip_z;
    }
    groups.push_back(std::move(one));
  }
  document["groups"] = std::move(groups);
  return text_of(document);
}

std::string experts_json(const Shown& shown) {
  Json document = head(shown);
  document["far_z"] = kFarZ;
  document["fewest_experts"] = kFewestExperts;
  Json groups = Json::array();
  for (const ExpertGroup& group : expert_groups(shown.matrices)) {
    Json experts = Json::array();
    for (const RankedExpert& expert : group.experts) {
      Json one = matrix_json(shown, *expert.matrix);
      one["robust_z"] = expert.z;
      one["far"] = expert.is_far;
      experts.push_back(std::move(one));
    }
    groups.push_back({{"layer", group.layer},
                      {"role", group.role},
                      {"count", group.count},
                      {"median", group.median},
                      {"scale", group.scale},
                      {"experts", std::move(experts)}});
  }
  document["groups"] = std::move(groups);
  return text_of(document);
}

std::string top_json(const Shown& shown, std::size_t count, bool ascending) {
  Json document = head(shown);
  document["by"] = shown.sort_by;
  document["ascending"] = ascending;
  Json matrices = Json::array();
  for (const ShownMatrix* matrix : top_matrices(shown.matrices, count, ascending)) {
    Json one = matrix_json(shown, *matrix);
    one["by"] = matrix->sort_by;
    matrices.push_back(std::move(one));
  }
  document["matrices"] = std::move(matrices);
  return text_of(document);
}

namespace {

Json row_json(const results::ShownCells& shown, const results::ShownRow& row) {
  const results::Schema& schema = results::schema_of(shown.schema);
  const results::CellTable& table = *schema.cells;
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
  auto next = row.cells.begin();
  for (const results::CellColumn& cell : table.cells) {
    const auto end =
        next + static_cast<std::ptrdiff_t>(results::cell_count(cell, shown.scale_length));
    if (results::is_present(cell, shown.optional_columns) && next != end) {
      out[std::string(cell.name)] = !cell.scale.empty() ? Json(std::vector<double>(next, end))
                                    : cell.integer && !std::isnan(*next)
                                        ? Json(static_cast<std::int64_t>(*next))
                                        : Json(*next);
    }
    next = end;
  }
  for (std::size_t i = 0; i < table.arrays.size(); ++i) {
    if (table.arrays[i].dims[1].empty() &&
        results::is_present(table.arrays[i], shown.optional_columns)) {
      out[std::string(table.arrays[i].name)] =
          row.arrays[i].empty() ? Json(nullptr) : Json(row.arrays[i]);
    }
  }
  return out;
}

}  // namespace

std::string cells_json(const results::ShownCells& shown, const TopRows& top) {
  Json out = {
      {"schema", fmt::format("vindex-{}-summary/1", results::writing_command(shown.schema))},
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
  for (const results::RunAttribute& attribute : shown.attributes) {
    attributes[attribute.name] =
        std::visit([](const auto& value) { return Json(value); }, attribute.value);
  }
  Json& scales = out["scales"] = Json::object();
  for (const auto& [name, values] : shown.scales) {
    scales[name] = values.integers.empty() ? Json(values.doubles) : Json(values.integers);
  }
  out.update(summary_of(shown).members);
  if (top.count > 0) {
    out["by"] = top.by;
    out["ascending"] = top.is_ascending;
  }
  Json& rows = out["rows"] = Json::array();
  for (const results::ShownRow& row : shown.rows) {
    rows.push_back(row_json(shown, row));
  }
  return out.dump() + "\n";
}

}  // namespace vindex::report
