// Owns the description of a measuring run: mode, back ends, options and their digest.
#include <vindex/blas/blas_library.hpp>
#include <vindex/core/digest.hpp>
#include <vindex/engine/description_parts.hpp>
#include <vindex/engine/version.hpp>
#include <vindex/jobs/spectra/run_description.hpp>
#include <vindex/model/importance_matrix.hpp>
#include <vindex/model/product.hpp>

#include <fmt/format.h>

#include <utility>

namespace vindex::jobs {

namespace {

/// What the products of heads, or all others, are made of: head counts and scales come from
/// configurations, which no header's digest covers.
std::string recipe_digest(const model::ModelIndex& index, bool heads) {
  std::string text;
  for (const model::MatrixRecord& row : index.matrices) {
    if (row.product == nullptr || model::is_head_role(row.role) != heads) {
      continue;
    }
    text += fmt::format("{}#{} {}", row.tensor, row.slice, row.product->scale);
    for (const model::ProductFactor& factor : row.product->factors) {
      text +=
          fmt::format(" {}#{} {}+{} {}+{} {}", factor.matrix->tensor, factor.matrix->slice,
                      factor.first_row, factor.rows, factor.first_col, factor.cols, factor.turned);
      if (factor.col_step > 1) {
        text += fmt::format(" step {}", factor.col_step);
      }
    }
    text += '\n';
  }
  return "sha256 " + hex(sha256(text));
}

}  // namespace

results::RunDescription describe_run(const engine::RunSettings& settings,
                                     const engine::SelectedModel& model,
                                     const std::vector<std::unique_ptr<measure::Backend>>& backends,
                                     const shard::BulkReader& reader) {
  results::RunDescription run = engine::begin_description(
      results::FileSchema::kResults, settings.model,
      fmt::format("Singular-value spectra of {}", printable(settings.model)), settings.command);
  run.mode = engine::mode_name(settings.options.mode);
  run.backend = backends.front()->info().name;
  run.store_spectra = settings.store_spectra;
  run.sign_flip_draws = settings.options.sign_flip_draws;
  run.vectors = settings.options.vectors;

  run.fingerprint.emplace_back("mode", run.mode);
  run.fingerprint.emplace_back("escalate", settings.options.escalate ? "yes" : "no");
  run.fingerprint.emplace_back("null", measure::null_name(run.sign_flip_draws));
  run.fingerprint.emplace_back("vectors", std::to_string(run.vectors));
  run.fingerprint.emplace_back("spectra", run.store_spectra ? "stored" : "left out");
  const std::string reshape = settings.indexing.reshape_out ? "out" : "none";
  run.fingerprint.emplace_back("reshape", reshape);
  Json inputs = engine::add_inputs(model.files, "", run);
  if (model.importance != nullptr) {
    // Only where earlier rows of /imatrix/ are there does another file contradict them.
    run.fingerprint.emplace_back("derived.imatrix", "sha256 " + model.importance->sha256());
    inputs.push_back({{"path", printable(settings.imatrix)},
                      {"bytes", model.importance->identity().bytes},
                      {"version", printable(model.importance->identity().version)},
                      {"sha256", model.importance->sha256()},
                      {"kind", "imatrix"}});
  }
  for (const bool heads : {true, false}) {
    if (heads ? settings.indexing.heads : settings.indexing.lora) {
      run.fingerprint.emplace_back(heads ? "derived.heads" : "derived.lora",
                                   recipe_digest(model.index, heads));
    }
  }
  run.inputs_json = inputs.dump(1);

  const measure::MeasureOptions& options = settings.options;
  run.settings_json = engine::settings_text({{"mode", run.mode},
                                             {"escalate", options.escalate},
                                             {"svd_route", options.svd_route},
                                             {"null", measure::null_name(run.sign_flip_draws)},
                                             {"reshape", reshape},
                                             {"heads", settings.indexing.heads},
                                             {"lora", settings.indexing.lora},
                                             {"vectors", options.vectors},
                                             {"spectra", settings.store_spectra}},
                                            settings);

  Json surroundings = engine::environment(settings, reader, backends);
  if (settings.indexing.heads || settings.indexing.lora) {
    surroundings["products"] = blas::load_blas(settings.blas_core).text();
  }
  run.environment_json = surroundings.dump(1);
  run.config_json = engine::shape_json(model.index.shape).dump(1);

  for (const std::int64_t i : model.selected) {
    run.matrices.push_back(model.index.matrices[static_cast<std::size_t>(i)]);
  }
  run.tensors = model.index.tensors;
  for (const model::TensorRecord& tensor : run.tensors) {
    std::string names;
    for (const std::int32_t stored : tensor.stored) {
      names +=
          (names.empty() ? "" : " ") + model.files.tensors[static_cast<std::size_t>(stored)].name;
    }
    run.tensor_stored_names.push_back(names);
  }
  return run;
}

}  // namespace vindex::jobs
