// Owns the steps of an activations run: opening dump and model, the list of layers, the
// description.
#include "activations_run.hpp"

#include "activations_job.hpp"

#include "blas/blas_library.hpp"
#include "commands/token_tables/activations_cells.hpp"
#include "engine/devices/backends.hpp"
#include "engine/run/description_parts.hpp"
#include "engine/run/job_frame.hpp"
#include "engine/run/opening.hpp"
#include "model/selection/selection.hpp"
#include "statistics/activations/activation_nulls.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace vindex::commands {

namespace {

const model::MatrixRecord& matrix_at(const model::ModelIndex& index, std::int64_t matrix) {
  return index.matrices[static_cast<std::size_t>(matrix)];
}

/// The rows: logits, then layers in order, those of the dump and those of the model alone.
std::vector<ActivationLayer> layers_of(const ActivationsSettings& settings, const model::Dump& dump,
                                       const engine::OpenModel* model) {
  const std::string_view role = settings.hidden ? model::kHiddenRole : model::kMlpRole;
  std::map<std::int32_t, ActivationLayer> layers;
  for (const std::int64_t matrix : model::matrices_of_role(dump, role)) {
    layers[matrix_at(dump.index, matrix).layer].matrix = matrix;
  }
  const std::vector<std::int64_t> logits = model::matrices_of_role(dump, model::kLogitsRole);
  if (layers.empty() && logits.empty()) {
    throw FormatError(
        "E-DUMP-ROLE", printable(settings.dump),
        settings.hidden
            ? "neither hidden.L nor logits in it; capture them (docs/commands/capture.md)"
            : "neither mlp.L nor logits in it; capture them, or pass --hidden for the statistics "
              "of hidden.L (docs/commands/capture.md)");
  }
  if (model != nullptr) {
    const auto gates =
        model::feature_matrices(model->files, model->index, {}, model::FeatureRole::kGate);
    for (const model::FeatureMatrix& gate : gates) {
      const model::MatrixRecord& record = matrix_at(model->index, gate.matrix);
      if (record.layer < 0) {
        continue;
      }
      ActivationLayer& layer = layers[record.layer];
      if (model::undecodable_text(record).empty()) {
        layer.gates.push_back(gate);
      } else {
        ++layer.passed_over;
      }
    }
    std::erase_if(layers, [](const auto& entry) {
      return entry.second.matrix < 0 && entry.second.gates.empty();
    });
  }
  std::vector<ActivationLayer> out;
  if (!logits.empty()) {
    out.push_back({.matrix = logits.front()});
  }
  for (auto& [number, layer] : layers) {
    out.push_back(std::move(layer));
  }
  return out;
}

/// What a row is called and says of its shape.
model::MatrixRecord record_of_row(const model::Dump& dump, const engine::OpenModel* model,
                                  const ActivationLayer& layer) {
  if (layer.matrix >= 0) {
    return matrix_at(dump.index, layer.matrix);
  }
  model::MatrixRecord record = matrix_at(model->index, layer.gates.front().matrix);
  record.slice = record.expert = -1;
  record.block = model::Block::kOther;
  record.role = "gate_proj";
  return record;
}

void describe_activations(const ActivationsSettings& settings, const model::Dump& dump,
                          const engine::OpenModel* model,
                          const std::vector<ActivationLayer>& layers,
                          const std::vector<std::unique_ptr<Backend>>& backends,
                          engine::JobFrame& frame) {
  results::RunDescription& run =
      frame.describe(results::FileSchema::kActivations, settings.dump,
                     fmt::format("activations of {}", printable(settings.dump)), backends);
  run.fingerprint.emplace_back("of", settings.hidden ? "hidden" : "mlp");
  run.fingerprint.emplace_back("nulls", "2");  // rows of other nulls are no part of this run
  run.fingerprint.emplace_back("covariance", settings.covariance ? "1" : "0");
  frame.add_inputs(dump.files, "dump");
  if (model != nullptr) {
    frame.add_inputs(model->files, "model", "model ");
  }
  frame.complete(
      {{"model", settings.model}, {"hidden", settings.hidden}, {"covariance", settings.covariance}},
      {{"tokens", dump.tokens},
       {"model", model == nullptr ? Json(nullptr) : engine::shape_json(model->index.shape)}});
  if (!backends.front()->limits().uses_host_cores) {  // eigenvalues are found on the host
    frame.environment()["eigenvalues"] = blas::load_blas(settings.run.blas_core).text();
  }
  run.attributes = {
      {"tokens", dump.tokens},
      {"of", std::string(settings.hidden ? "hidden" : "mlp")},
      {"nulls", std::string("closed forms and quadrature; effective_rank of mlp to 0.5 %")}};
  if (model != nullptr) {
    run.attributes.push_back({"gates_of", settings.model});
    run.optional_columns = results::optional_names(engine::kActivationsCells);
  }
  run.scales = {{"threshold", results::ScaleValues(std::vector<double>(
                                  statistics::kNearZero.begin(), statistics::kNearZero.end()))}};
  for (const ActivationLayer& layer : layers) {
    run.matrices.push_back(record_of_row(dump, model, layer));
  }
}

}  // namespace

engine::RunOutcome measure_activations(const ActivationsSettings& settings,
                                       const engine::RunHooks& hooks) {
  engine::JobFrame frame(settings.run);
  model::Dump dump = model::open_dump(settings.dump, hooks.stop);
  std::optional<engine::OpenModel> gates;
  if (!settings.model.empty()) {
    gates =
        engine::open_whole(settings.model, settings.model_config, settings.run.threads, hooks.stop);
  }
  const engine::OpenModel* const model = gates ? &*gates : nullptr;
  std::vector<ActivationLayer> layers = layers_of(settings, dump, model);
  std::string note;
  auto backends = engine::open_backends(settings.run, note);
  frame.open_reader({&dump.files, model ? &model->files : nullptr});
  describe_activations(settings, dump, model, layers, backends, frame);
  frame.say_warnings(dump.files, dump.index, model ? "dump: " : "");
  if (model != nullptr) {
    frame.say_warnings(model->files, model->index, "model: ");
  }
  frame.say(note);
  return engine::run_job(
      std::make_unique<ActivationsJob>(std::move(dump), std::move(gates), std::move(layers),
                                       std::move(backends), settings.covariance),
      frame.take_run(), hooks);
}

}  // namespace vindex::commands
