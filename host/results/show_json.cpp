// What `show` says to programs: one document, schema "vindex-show/1".
#include <vindex/results/show.hpp>

#include <nlohmann/json.hpp>

#include <cmath>
#include <string>

namespace vindex::results {

namespace {

using Json = nlohmann::ordered_json;

/// JSON has neither NaN nor infinities.
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json head(const Shown& shown) {
  return {{"schema", "vindex-show/1"},
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
}

void add_numbers(Json& to, const ShownMetric& metric, const MetricNumbers& numbers) {
  to["value"] = number(numbers.value);
  if (metric.has_null) {
    to["null"] = number(numbers.null);
    to["difference"] = number(numbers.difference());
    to["ratio"] = number(numbers.ratio());
  }
  if (metric.has_sign_flip) {
    to["signflip"] = number(numbers.sign_flip);
  }
  if (metric.has_spread) {
    to["signflip_std"] = number(numbers.sign_flip_std);
    to["signflip_z"] = number(numbers.sign_flip_z);
    to["signflip_p"] = number(numbers.sign_flip_p);
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
std::string text_of(const Json& document) {
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

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
    one["median"] = number(group.median);
    one["q25"] = number(group.q25);
    one["q75"] = number(group.q75);
    one["min"] = number(group.min);
    one["max"] = number(group.max);
    if (shown.metric.has_null) {
      one["null"] = number(group.null);
      one["difference"] = number(group.difference);
      one["ratio"] = number(group.ratio);
    }
    if (shown.metric.has_sign_flip) {
      one["signflip"] = number(group.sign_flip);
    }
    if (shown.metric.has_spread) {
      one["signflip_z"] = number(group.sign_flip_z);
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
      one["robust_z"] = number(expert.z);
      one["far"] = expert.is_far;
      experts.push_back(std::move(one));
    }
    groups.push_back({{"layer", group.layer},
                      {"role", group.role},
                      {"count", group.count},
                      {"median", number(group.median)},
                      {"scale", number(group.scale)},
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
    one["by"] = number(matrix->sort_by);
    matrices.push_back(std::move(one));
  }
  document["matrices"] = std::move(matrices);
  return text_of(document);
}

}  // namespace vindex::results
