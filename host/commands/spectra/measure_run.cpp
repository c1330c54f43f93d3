// Owns the steps of a measuring run, the description of its file (mode, back ends, options and
// their digest), and the plan of a run that is not carried out.
#include "measure_run.hpp"

#include "draw_lines.hpp"
#include "spectrum_job.hpp"

#include "blas/blas_library.hpp"
#include "commands/spectra/sampled/tensor_samples.hpp"
#include "core/digest.hpp"
#include "core/json/json.hpp"
#include "core/process/parallel.hpp"
#include "core/text/size_text.hpp"
#include "decode/decode_matrix.hpp"
#include "decode/encoding/code_layout.hpp"
#include "decode/encoding_table.hpp"
#include "decode/moments.hpp"
#include "engine/devices/devices_ahead.hpp"
#include "engine/run/description_parts.hpp"
#include "engine/run/job_frame.hpp"
#include "input/verify_files.hpp"
#include "model/importance/importance_matrix.hpp"
#include "model/products/product.hpp"
#include "statistics/null/sign_flip_null.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <mutex>
#include <sys/resource.h>
#include <utility>

namespace vindex::commands {

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
      text += fmt::format(" {}#{} {}+{} {}+{} {}", factor.matrix->tensor, factor.matrix->slice,
                          factor.first_row, factor.rows, factor.first_col, factor.cols,
                          factor.transposed);
      if (factor.col_step > 1) {
        text += fmt::format(" step {}", factor.col_step);
      }
    }
    text += '\n';
  }
  return "sha256 " + hex(sha256(text));
}

/// What is drawn, or null.
Json draw_json(const SpectraSettings& settings) {
  if (!settings.sample) {
    return nullptr;
  }
  return {
      {"experts", settings.sample->experts > 0 ? Json(settings.sample->experts) : Json(nullptr)},
      {"seed", settings.sample->seed}};
}

/// Everything of /run/ and the fingerprint. `backends` are those that will work.
void describe_run(const SpectraSettings& settings, const SpectraModel& model,
                  const std::vector<std::unique_ptr<Backend>>& backends, engine::JobFrame& frame) {
  const MeasureOptions& options = settings.run.options;
  results::RunDescription& run = frame.describe(
      results::FileSchema::kResults, settings.run.model,
      fmt::format("Singular-value spectra of {}", printable(settings.run.model)), backends);
  run.mode = engine::mode_name(options.mode);
  run.store_spectra = settings.store_spectra;
  run.sign_flip_draws = options.sign_flip_draws;
  run.vectors = options.vectors;

  run.fingerprint.emplace_back("mode", run.mode);
  run.fingerprint.emplace_back("escalate", options.escalate ? "yes" : "no");
  run.fingerprint.emplace_back("null", statistics::null_name(run.sign_flip_draws));
  run.fingerprint.emplace_back("vectors", std::to_string(run.vectors));
  run.fingerprint.emplace_back("spectra", run.store_spectra ? "stored" : "left out");
  if (settings.sample) {
    run.fingerprint.push_back(draw_line(settings.sample->seed));
  }
  const std::string reshape = settings.indexing.reshape_out ? "out" : "none";
  run.fingerprint.emplace_back("reshape", reshape);
  Json& inputs = frame.add_inputs(model.files);
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
  frame.complete({{"mode", run.mode},
                  {"escalate", options.escalate},
                  {"svd_route", options.svd_route},
                  {"null", statistics::null_name(run.sign_flip_draws)},
                  {"reshape", reshape},
                  {"heads", settings.indexing.heads},
                  {"lora", settings.indexing.lora},
                  {"vectors", options.vectors},
                  {"spectra", settings.store_spectra},
                  {"draw", draw_json(settings)},
                  {"order", settings.in_drawn_order ? "sampled" : "stored"}},
                 engine::shape_json(model.index.shape));
  if (settings.copies.disk_budget > 0) {
    frame.settings_document()["disk_budget_bytes"] = settings.copies.disk_budget;
  }
  if (settings.indexing.heads || settings.indexing.lora) {
    frame.environment()["products"] = blas::load_blas(settings.run.blas_core).text();
  }

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
  if (settings.class_of != nullptr) {
    add_samples(settings.class_of, options.sign_flip_draws > 0, model, run);
    frame.settings_document()["sample"] = sample_json();
    add_block_scales(model, run);
  }
}

}  // namespace

engine::WorkPlan plan_run(const SpectraSettings& settings, const engine::SelectedModel& model,
                          const std::vector<std::unique_ptr<Backend>>& backends) {
  std::vector<std::int64_t> rows;
  for (std::size_t row = 0; row < model.selected.size(); ++row) {
    if (model.index.matrices[static_cast<std::size_t>(model.selected[row])].unsupported.empty()) {
      rows.push_back(static_cast<std::int64_t>(row));
    }
  }
  const std::vector<engine::RowWork> works =
      spectrum_works(model, backends, settings.run.options, row_options(settings), rows);
  return engine::plan_job(works, static_cast<std::int64_t>(model.selected.size()),
                          layout_of(backends, row_options(settings)), settings.run.ram_budget);
}

std::vector<std::jthread> load_blas_ahead(std::string core) {
  static std::once_flag begun;
  std::vector<std::jthread> threads;
  // OpenBLAS asks without end for a buffer that it does not get. Room for it is looked for before,
  // and with a limit on addresses another thread may take that in between.
  rlimit addresses = {};
  if (::getrlimit(RLIMIT_AS, &addresses) != 0 || addresses.rlim_cur != RLIM_INFINITY) {
    return threads;
  }
  std::call_once(begun, [&] {
    (void)start_thread(threads, [core = std::move(core)] {
      try {
        blas::load_blas(core);
      } catch (const std::exception&) {
        return;  // asked for again, it is tried again
      }
    });
  });
  return threads;
}

engine::RunOutcome measure_model(const SpectraSettings& settings, const engine::RunHooks& hooks) {
  engine::JobFrame frame(settings.run);
  const bool needs_blas = settings.run.backend != engine::BackendChoice::kCuda;
  const std::vector<std::jthread> loading =
      needs_blas ? load_blas_ahead(settings.run.blas_core) : std::vector<std::jthread>();
  engine::DevicesAhead devices(settings.run);
  SpectraModel model = open_spectra_model(settings, hooks.stop);
  if (model.copies != nullptr) {
    model.copies->make_folder();
  }
  if (settings.verify) {
    const std::uint64_t bytes = input::verify_files(model.files, settings.run.threads, hooks.stop);
    frame.say(fmt::format("{} files, {}: their SHA-256 is the published one",
                          model.files.shards.size(), data_text(bytes)));
  }
  std::string note;
  auto backends = open_spectra_backends(settings, devices.take(), note);
  frame.open_reader({&model.files});
  describe_run(settings, model, backends, frame);
  frame.say_warnings(model.files, model.index);
  frame.say(model.notes);
  frame.say(note);
  const std::shared_ptr<input::ShardCopies> copies = model.copies;
  engine::RunOutcome outcome =
      engine::run_job(std::make_unique<SpectrumJob>(std::move(model), std::move(backends),
                                                    settings.run.options, row_options(settings)),
                      frame.take_run(), hooks);
  if (copies != nullptr && hooks.message) {
    hooks.message(input::copies_text(*copies));
  }
  return outcome;
}

}  // namespace vindex::commands
