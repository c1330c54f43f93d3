// Owns the JSON documents of measured models.
#include "fleet_tables.hpp"
#include "measure_fleet.hpp"
#include "scale_law.hpp"

#include "core/json/json_document.hpp"
#include "core/text/secrets.hpp"
#include "model/families/architecture_facts.hpp"
#include "statistics/spectrum/sample_angles.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace vindex::fleet {

namespace {

Json spread_json(const Spread& spread) {
  return {
      {"mean", spread.mean()}, {"sd", spread.sd()}, {"min", spread.min()}, {"max", spread.max()}};
}

Json beside_null(const Spread& spread, const Spread& null) {
  Json out = spread_json(spread);
  out["null"] = null.mean();
  return out;
}

Json scale_json(const Spread& spread, double null, double null_sd, const Spread& flipped) {
  Json out = spread_json(spread);
  out["null"] = null;
  out["null_sd"] = null_sd;
  out["signflip"] = flipped.mean();
  return out;
}

void add_scales(const ScaleSpread& scales, Json& out) {
  out["z_modulus"] = scale_json(scales.z_modulus, scales.z_modulus_null.mean(), scales.z_null_sd(),
                                scales.z_modulus_signflip);
  out["csci"] = scale_json(scales.csci, 0.0, scales.csci_null_sd(), scales.csci_signflip);
  out["csci"]["permuted"] = scales.csci_permuted.mean();
}

Json measured_tensor_json(const MeasuredTensor& tensor) {
  Json out = {{"name", tensor.name},
              {"class", organ::class_name(tensor.organ.organ_class)},
              {"kind", tensor.organ.is_bias ? "bias" : "weight"},
              {"block", tensor.organ.block},
              {"shape", tensor.shape},
              {"type", tensor.type},
              {"params", tensor.parameters}};
  if (tensor.slices > 1) {
    out["slices"] = tensor.slices;
  }
  for (std::size_t i = 0; i < kTensorFigures; ++i) {
    if (!tensor.is_vector() || kFigureRows[i].of_vectors) {
      const Spread& spread = tensor.figures[i];
      out[kFigureRows[i].name] = tensor.slices > 1 ? spread_json(spread) : Json(spread.mean());
    }
  }
  if (tensor.is_vector()) {
    out["theta_qq"] = tensor.theta_qq;
    out["theta_qq_null"] = tensor.theta_qq_null;
  }
  out["z_modulus_null"] = tensor.scales.z_modulus_null;
  out["z_modulus_null_sd"] = tensor.scales.z_modulus_null_sd;
  out["csci_null_sd"] = tensor.scales.csci_null_sd;
  out["csci_permuted"] = tensor.scales.csci_permuted;
  out["csci_permuted_sd"] = tensor.scales.csci_permuted_sd;
  if (!tensor.scales_missing.empty()) {
    out["z_reason"] = tensor.scales_missing;
  }
  if (!tensor.remark.empty()) {
    out["remark"] = tensor.remark;
  }
  return out;
}

Json group_json(const GroupStatistics& group, const VectorStatistics& vectors) {
  Json out = {{"n", group.tensors}, {"params", group.parameters}};
  Json theta = spread_json(group.theta);
  theta["pmean"] = group.theta_weighted.mean();
  theta["null"] = group.theta_null.mean();
  out["theta"] = std::move(theta);
  out["signal"] = group.signal.mean();
  out["theta_seed"] = beside_null(group.theta_seed, group.theta_seed_null);
  add_scales(group.scales, out);
  Json one_dimensional = {{"n", vectors.tensors},
                          {"params", vectors.parameters},
                          {"theta_qq", beside_null(vectors.theta_qq, vectors.theta_qq_null)},
                          {"theta_seed", beside_null(vectors.theta_seed, vectors.theta_seed_null)}};
  add_scales(vectors.scales, one_dimensional);
  out["one_dimensional"] = std::move(one_dimensional);
  return out;
}

/// Of matrices alone.
Json part_json(const GroupStatistics& part) {
  return {{"n", part.tensors},
          {"params", part.parameters},
          {"theta", part.theta_weighted.mean()},
          {"theta_null", part.theta_null.mean()},
          {"signal", part.signal.mean()},
          {"erank_over_null", part.erank_over_null.mean()},
          {"var64", part.var64.mean()},
          {"var64_null", part.var64_null.mean()},
          {"var64_over_null", part.var64_over_null.mean()}};
}

Json fit_json(const ScaleFit& fit) {
  return {
      {"n", fit.models},      {"groups", fit.groups},         {"slope", fit.slope},
      {"ci_low", fit.low},    {"ci_high", fit.high},          {"p", fit.p},
      {"orders", fit.orders}, {"all_orders", fit.all_orders}, {"reason", Json::given(fit.reason)}};
}

Json scale_json(std::span<const FleetModel> models) {
  const std::vector<ScaleLaw> laws = scale_laws(measured_models(models));
  Json out = {{"against", "natural logarithm of the parameters of the measured tensors"},
              {"interval", "95 %, Student's, of normal residuals"},
              {"p", "two-sided, figures exchanged among the models"}};
  out["figures"] = Json::list(laws, [](const ScaleLaw& law) {
    return Json{{"name", law.name},
                {"unit", law.unit},
                {"all", fit_json(law.all)},
                {"within_architectures", fit_json(law.within)}};
  });
  return out;
}

/// The class that the published cards give by var@64 of feed-forward matrices, and the one that
/// noise of these shapes would have.
Json card_json(const ModelMeasure& model) {
  const GroupStatistics figures = feed_forward_statistics(model);
  return {{"rule", fmt::format("var@64 below {} is \"dissolved\"", kCardThreshold)},
          {"var64", figures.var64.mean()},
          {"class", Json::given(card_class(figures.var64.mean()))},
          {"var64_null", figures.var64_null.mean()},
          {"null_class", Json::given(card_class(figures.var64_null.mean()))},
          {"stored_as", Json::given(feed_forward_encoding(model))}};
}

Json model_groups(const ModelMeasure& model) {
  Json groups = Json::object();
  for (std::size_t i = 0; i < organ::kOrganClasses; ++i) {
    const auto organ_class = static_cast<organ::OrganClass>(i);
    const GroupStatistics group = group_statistics(model, &organ_class);
    const VectorStatistics vectors = vector_statistics(model, &organ_class);
    if (group.tensors + vectors.tensors > 0) {
      groups[std::string(organ::class_name(organ_class))] = group_json(group, vectors);
    }
  }
  Json parts = Json::object();
  for (std::size_t i = 0; i < kModelParts; ++i) {
    const auto part = static_cast<ModelPart>(i);
    if (const GroupStatistics figures = part_statistics(model, part); figures.tensors > 0) {
      parts[std::string(part_name(part))] = part_json(figures);
    }
  }
  groups["parts"] = std::move(parts);
  groups["all"] = group_json(group_statistics(model), vector_statistics(model));
  return groups;
}

Json method_json(const ModelMeasure& model) {
  return {{"spectral",
           {{"theta",
             "degrees; arcsin of the share of the norm that stands above a "
             "Marchenko-Pastur bulk, shrunk optimally in the Frobenius norm"},
            {"noise", "from the median singular value"},
            {"mode", model.mode},
            {"backend", model.backend}}},
          {"seed",
           {{"theta_seed", "degrees; a heuristic of the histogram's shape, no measure of quality"},
            {"sample", statistics::kMaxSampled},
            {"bins", statistics::kSeedBins},
            {"weights",
             {{"entropy", statistics::kEntropyWeight},
              {"kurtosis", statistics::kKurtosisWeight},
              {"spacing", statistics::kSpacingWeight}}}}},
          {"one_dimensional",
           "theta_qq, degrees: angle to the normal law; never in the means of matrices"},
          {"nulls", "what independent normal numbers of that shape or number give"}};
}

std::string document_text(const Json& document) { return document.dump(1) + "\n"; }

}  // namespace

std::string measure_json(const ModelMeasure& model) {
  const auto unmeasured = [](const UnmeasuredTensor& tensor) {
    return Json{{"name", tensor.name},
                {"class", organ::class_name(tensor.organ.organ_class)},
                {"reason", tensor.reason}};
  };
  return document_text({{"schema", "organ-measure/1"},
                        {"model", model.name},
                        {"path", without_secrets(model.path)},
                        {"arch", model.architecture},
                        {"attention", model::architecture_json(model.attention)},
                        {"tensors_total", model.tensors_total},
                        {"tensors_measured", model.tensors.size()},
                        {"unmeasured", Json::list(model.unmeasured, unmeasured)},
                        {"bytes", model.bytes},
                        {"seconds", model.seconds},
                        {"method", method_json(model)},
                        {"groups", model_groups(model)},
                        {"tensors", Json::list(model.tensors, measured_tensor_json)}});
}

std::string groups_json(std::span<const FleetModel> models) {
  Json out = Json::object();
  for (const FleetModel& model : models) {
    if (model.measure) {
      out[model.name] = model_groups(*model.measure);
    }
  }
  return document_text(out);
}

std::vector<const FleetModel*> ranking(std::span<const FleetModel> models) {
  std::vector<const FleetModel*> order;
  for (const FleetModel& model : models) {
    order.push_back(&model);
  }
  const auto key = [](const FleetModel* model) {
    const double theta =
        model->measure ? group_statistics(*model->measure).theta_weighted.mean() : kNaN;
    return std::isnan(theta) ? -1.0 : theta;
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](const FleetModel* a, const FleetModel* b) { return key(a) > key(b); });
  return order;
}

std::string ranking_json(std::span<const FleetModel> models) {
  Json rows = Json::array();
  Json failed = Json::array();
  for (const FleetModel* model : ranking(models)) {
    if (!model->measure) {
      failed.push_back({{"model", model->name}, {"path", model->path}, {"reason", model->failure}});
      continue;
    }
    const GroupStatistics group = group_statistics(*model->measure);
    const VectorStatistics vectors = vector_statistics(*model->measure);
    rows.push_back({{"rank", rows.size() + 1},
                    {"model", model->name},
                    {"params", model->measure->parameters()},
                    {"theta", group.theta_weighted.mean()},
                    {"theta_unweighted", group.theta.mean()},
                    {"theta_null", group.theta_null.mean()},
                    {"signal", group.signal.mean()},
                    {"theta_seed", group.theta_seed.mean()},
                    {"theta_seed_null", group.theta_seed_null.mean()},
                    {"z_modulus", group.scales.z_modulus.mean()},
                    {"z_modulus_null_sd", group.scales.z_null_sd()},
                    {"csci", group.scales.csci.mean()},
                    {"csci_null_sd", group.scales.csci_null_sd()},
                    {"csci_signflip", group.scales.csci_signflip.mean()},
                    {"theta_qq_one_dimensional", vectors.theta_qq.mean()},
                    {"theta_seed_one_dimensional", vectors.theta_seed.mean()},
                    {"tensors", model->measure->tensors.size()},
                    {"tensors_total", model->measure->tensors_total},
                    {"arch", model->measure->architecture},
                    {"attention", model::architecture_json(model->measure->attention)},
                    {"erank_over_null", group.erank_over_null.mean()},
                    {"var64_over_null", group.var64_over_null.mean()},
                    {"card", card_json(*model->measure)}});
  }
  return document_text({{"schema", "organ-ranking/1"},
                        {"ranked_by", "theta: mean over matrices, weighted by parameters"},
                        {"theta_seed", kSeedWarning},
                        {"ranking", std::move(rows)},
                        {"scale_law", scale_json(models)},
                        {"failed", std::move(failed)}});
}

std::string dissection_json(std::span<const FleetModel> models) {
  Json rows = Json::array();
  for (const FleetModel& model : models) {
    if (!model.measure) {
      continue;
    }
    const ModelMeasure& measure = *model.measure;
    rows.push_back({{"model", model.name},
                    {"bytes", measure.bytes},
                    {"seconds", measure.seconds},
                    {"mb_s", 1e-6 * static_cast<double>(measure.bytes) / measure.seconds},
                    {"tensors", measure.tensors_total}});
  }
  return document_text({{"schema", "organ-dissection/1"}, {"models", std::move(rows)}});
}

}  // namespace vindex::fleet
