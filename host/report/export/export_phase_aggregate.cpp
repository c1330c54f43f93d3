// Owns phase1_moe_svd_agg.json: C1 to C5 of the published cards, each with the file that it was
// measured from, or null and the reason. Nothing is filled from a configuration.
#include "export_phase_aggregate.hpp"

#include "commands/cka/cka_cells.hpp"
#include "commands/cka/cka_findings.hpp"
#include "commands/token_tables/activations_cells.hpp"
#include "statistics/samples/quantile.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <set>

namespace vindex::report {

namespace {

Json spread(const std::vector<double>& values) {
  return {{"median", Json(statistics::quantile(values, 0.5))},
          {"q25", Json(statistics::quantile(values, 0.25))},
          {"q75", Json(statistics::quantile(values, 0.75))},
          {"min", Json(statistics::quantile(values, 0.0))},
          {"max", Json(statistics::quantile(values, 1.0))}};
}

Json source_of(const results::ResultsView& view) {
  return {{"file", printable(view.path)},
          {"verb", results::writing_command(view.schema)},
          {"input", view.model}};
}

/// Of the rows of `view` the numbers that are there.
std::vector<double> present(const results::ResultsView& view,
                            const std::function<double(const results::ViewRow&)>& value) {
  std::vector<double> values;
  for (const results::ViewRow& row : view.rows) {
    const double number = value(row);
    if (!std::isnan(number)) {
      values.push_back(number);
    }
  }
  return values;
}

/// MLP activations; what is dumped of the residual stream has statistics too.
bool is_mlp(const results::ViewRow& row) { return row.role == "mlp"; }

std::vector<double> all_cells(const results::ResultsView& view, std::size_t cell) {
  return present(view, [&](const results::ViewRow& row) { return row.cells[cell]; });
}

/// An entry, or null and its reason among `missing`.
struct Entry {
  Json value = nullptr;
  std::string reason = {};
};

Entry sparsity(const results::ResultsView& view) {
  const auto scale = view.scales.find("threshold");
  if (scale == view.scales.end()) {
    return {.reason = "the file has no thresholds"};
  }
  Json thresholds = Json::array();
  std::size_t layers = 0;
  for (std::size_t i = 0; i < scale->second.doubles.size(); ++i) {
    const auto column = [&](std::size_t array) {
      return present(view, [&](const results::ViewRow& row) {
        return is_mlp(row) && i < row.arrays[array].size() ? row.arrays[array][i] : std::nan("");
      });
    };
    const std::vector<double> values = column(engine::activations_array("sparsity"));
    layers = values.size();
    Json one = {{"t", scale->second.doubles[i]}};
    one.update(spread(values));
    one["null"] =
        Json(statistics::quantile(column(engine::activations_array("sparsity_null")), 0.5));
    thresholds.push_back(std::move(one));
  }
  if (layers == 0) {
    return {.reason = "the dump has no mlp.L (gate(x) * up(x))"};
  }
  return {.value = {{"what",
                     "share of gate(x) * up(x) of at most t times its root mean square; the "
                     "published threshold is not known"},
                    {"measured_from", source_of(view)},
                    {"layers", layers},
                    {"thresholds", std::move(thresholds)},
                    {"null_of", "products of independent Gaussians"}}};
}

Entry concentration(const results::ResultsView& view) {
  const std::vector<double> mass = all_cells(view, engine::activations_cell("top8_mass"));
  if (mass.empty()) {
    return {.reason = "the dump has no logits"};
  }
  const auto one = [&](std::size_t cell) {
    return Json(statistics::quantile(all_cells(view, cell), 0.5));
  };
  return {.value = {{"what", "probability of the eight likeliest tokens, mean over positions"},
                    {"measured_from", source_of(view)},
                    {"top8_mass", Json(mass.front())},
                    {"top8_mass_null", one(engine::activations_cell("top8_mass_null"))},
                    {"output_entropy", one(engine::activations_cell("output_entropy"))},
                    {"output_entropy_null", one(engine::activations_cell("output_entropy_null"))},
                    {"null_of", "equal logits"}}};
}

Entry coherence(const results::ResultsView& view) {
  const std::vector<double> adjacent =
      all_cells(view, engine::activations_cell("gate_adjacent_cosine"));
  if (adjacent.empty()) {
    return {.reason = "the activations were measured without --model, whose gate_proj it is of"};
  }
  const auto median = [&](std::size_t cell) {
    return Json(statistics::quantile(all_cells(view, cell), 0.5));
  };
  Json out = {{"what", "mean cosine of rows f and f+1 of gate_proj, over layers"},
              {"measured_from", source_of(view)},
              {"layers", adjacent.size()}};
  out.update(spread(adjacent));
  out["null"] = 0.0;
  out["null_sd"] = median(engine::activations_cell("gate_adjacent_cosine_null_sd"));
  out["mean_abs_cosine"] = median(engine::activations_cell("gate_mean_abs_cosine"));
  out["mean_abs_cosine_null"] = median(engine::activations_cell("gate_mean_abs_cosine_null"));
  return {.value = std::move(out)};
}

bool has_experts(const Layers::value_type& layer) {
  return layer.second.contains(model::Block::kRoutedExpert);
}

bool is_mixture(const Layers& layers) {
  return std::any_of(layers.begin(), layers.end(), has_experts);
}

/// The dense layers of a mixture, which its C4 leaves out: one matrix of another shape, or neurons
/// of another width, is no member of a figure that is compared between mixtures. None of a model
/// that is dense throughout.
std::set<std::int32_t> dense_layers(const Layers& layers) {
  std::set<std::int32_t> dense;
  if (is_mixture(layers)) {
    for (const auto& entry : layers) {
      if (!has_experts(entry) && entry.second.contains(model::Block::kDenseMlp)) {
        dense.insert(entry.first);
      }
    }
  }
  return dense;
}

/// Over the layers but those in `dense`.
Entry neuron_variance(const results::ResultsView& view, const std::set<std::int32_t>& dense) {
  const std::size_t cell = engine::activations_cell("neuron_variance");
  const std::vector<double> values = present(view, [&](const results::ViewRow& row) {
    return is_mlp(row) && !dense.contains(row.layer) ? row.cells[cell] : std::nan("");
  });
  if (values.empty()) {
    return {.reason = dense.empty() ? "the dump has no mlp.L (gate(x) * up(x))"
                                    : "the dump has no mlp.L (gate(x) * up(x)) of a layer with "
                                      "experts: those of dense layers are left out"};
  }
  Json out = {{"what",
               "mean over neurons of the variance of gate(x) * up(x) over tokens (C4 of "
               "the dense cards), over layers"},
              {"measured_from", source_of(view)},
              {"layers", values.size()}};
  out.update(spread(values));
  return {.value = std::move(out)};
}

Entry stages(const results::ResultsView& view) {
  const commands::CkaFindings findings = commands::findings_of(view.beside);
  if (!findings.stages) {
    return {.reason =
                "the file does not hold the CKA of every layer of A and the next with its standard "
                "error (older files, dumps without prompts)"};
  }
  const std::vector<double> adjacent = all_cells(view, commands::cka_cell("adjacent_cka"));
  return {.value = {{"what",
                     "1 + layers whose unbiased CKA with the next layer is below its limit: the "
                     "trend of its neighbours less three deviations and three of its standard "
                     "errors"},
                    {"measured_from", source_of(view)},
                    {"stages", findings.stages->count},
                    {"breaks", findings.stage_breaks},
                    {"limits", findings.stages->limits},
                    {"median_adjacent_cka", findings.stages->median},
                    {"mad_adjacent_cka", findings.stages->mad},
                    {"adjacent_pairs", adjacent.size()}}};
}

/// var@64 of the weights, which published cards of mixtures give as C4. In a mixture it is of the
/// layers with routed experts alone (dense_layers()).
void add_var64(const PhaseSources& sources, const Layers& layers, Json& out) {
  const std::set<std::int32_t> dense = dense_layers(layers);
  std::vector<double> medians, ratios, errors;
  for (const auto& [layer, blocks] : layers) {
    if (dense.contains(layer)) {
      continue;
    }
    std::string role;
    if (const Rows* rows = headline(blocks, role)) {
      medians.push_back(statistics::quantile(values_of(*rows, var_at_64), 0.5));
      ratios.push_back(medians.back() / common_null(*rows));
      if (const statistics::DrawnGroup drawn = drawn_rows(*rows); drawn.is_drawn()) {
        const std::vector<double> values = values_of(*rows, var_at_64);
        errors.push_back(statistics::estimate_quantile(values, 0.5, drawn.untried()).error);
      }
    }
  }
  out["what"] = "var@64 of the weights, median of each layer, as published cards of mixtures";
  out["measured_from"] = {{"verb", "measure"}, {"input", sources.description->model}};
  out["matrices"] = is_mixture(layers) ? "routed experts" : "dense MLPs";
  out["layers"] = medians.size();
  out["dense_layers_left_out"] = dense.size();
  add_quantiles(out, "var64", medians);
  out["min_var64"] = Json(statistics::quantile(medians, 0.0));
  out["max_var64"] = Json(statistics::quantile(medians, 1.0));
  add_quantiles(out, "var64_ratio", ratios);
  if (!errors.empty()) {  // of a sample: how far the median of a layer may be off
    out["greatest_layer_median_se"] = Json(statistics::quantile(errors, 1.0));
  }
}

}  // namespace

Json phase1_aggregate_document(const PhaseSources& sources, const Layers& layers) {
  Json out;
  if (sources.description) {
    out = phase_head(*sources.description, "phase1-agg");
  } else {
    out["schema"] = "vindex-phase1-agg/1";
    out["model"] = sources.activations ? sources.activations->model : sources.cka->model;
  }
  Json missing = Json::object();
  const auto entry_of = [&](const char* name, const std::optional<results::ResultsView>& file,
                            const std::function<Entry(const results::ResultsView&)>& read,
                            const char* absent) {
    Entry entry = file ? read(*file) : Entry{.reason = absent};
    if (entry.value.is_null()) {
      missing[name] = entry.reason;
    }
    return std::move(entry.value);
  };
  constexpr const char* kNoActivations =
      "no file of `vindex activations` was given (--activations); weights alone do not determine "
      "it";
  const std::optional<results::ResultsView>& activations = sources.activations;
  out["C1"] = entry_of("C1", activations, sparsity, kNoActivations);
  out["C2"] = entry_of("C2", activations, concentration, kNoActivations);
  out["C3"] = entry_of("C3", activations, coherence,
                       "no file of `vindex activations --model` was given (--activations)");
  const auto variance_of = [&](const results::ResultsView& view) {
    return neuron_variance(view, dense_layers(layers));
  };
  Json variance = entry_of("C4.neuron_variance", activations, variance_of, kNoActivations);
  if (sources.spectra == nullptr) {
    missing["C4.var64"] = "no results file of the weights was given";
  }
  Json& c4 = out["C4"] = nullptr;
  if (sources.spectra != nullptr || !variance.is_null()) {
    c4 = Json::object();
    if (sources.spectra != nullptr) {
      add_var64(sources, layers, c4);
    }
    c4["neuron_variance"] = std::move(variance);
  }
  out["C5"] = entry_of("C5", sources.cka, stages, "no file of `vindex cka` was given (--cka)");
  out["not_measured"] = std::move(missing);
  return out;
}

}  // namespace vindex::report
