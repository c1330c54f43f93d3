// Owns the steps of a measuring run, the description of its file (mode, back ends, options and
// their digest, angles of 1-D tensors), and the plan of a run that is not carried out.
#include "measure_run.hpp"

#include "draw_lines.hpp"
#include "spectrum_job.hpp"

#include "blas/blas_library.hpp"
#include "commands/spectra/sampled/decoded_scales.hpp"
#include "core/digest.hpp"
#include "core/json/json.hpp"
#include "core/process/threads.hpp"
#include "core/text/size_text.hpp"
#include "decode/decode_matrix.hpp"
#include "decode/encoding/code_layout.hpp"
#include "decode/encoding_table.hpp"
#include "decode/moments.hpp"
#include "engine/devices/devices_ahead.hpp"
#include "engine/run/description_parts.hpp"
#include "engine/run/opening.hpp"
#include "engine/run/version.hpp"
#include "engine/units/matrix_loader.hpp"
#include "engine/units/source_watch.hpp"
#include "input/verify_files.hpp"
#include "model/importance/importance_matrix.hpp"
#include "model/products/product.hpp"
#include "results/parts/run_store.hpp"
#include "statistics/null/sign_flip_null.hpp"
#include "statistics/spectrum/sample_angles.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <sys/resource.h>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

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
Json draw_json(const engine::RunSettings& settings) {
  if (!settings.sample) {
    return nullptr;
  }
  return {
      {"experts", settings.sample->experts > 0 ? Json(settings.sample->experts) : Json(nullptr)},
      {"seed", settings.sample->seed}};
}

/// Everything of /run/ and the fingerprint. `backends` are those that will work, `reader` the one
/// that will read, asked before about every file (BulkReader::prepare()).
results::RunDescription describe_run(const engine::RunSettings& settings,
                                     const engine::SelectedModel& model,
                                     const std::vector<std::unique_ptr<Backend>>& backends,
                                     const input::BulkReader& reader) {
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
  run.fingerprint.emplace_back("null", statistics::null_name(run.sign_flip_draws));
  run.fingerprint.emplace_back("vectors", std::to_string(run.vectors));
  run.fingerprint.emplace_back("spectra", run.store_spectra ? "stored" : "left out");
  if (settings.sample) {
    run.fingerprint.push_back(draw_line(settings.sample->seed));
  }
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

  const MeasureOptions& options = settings.options;
  run.settings_json =
      engine::settings_text({{"mode", run.mode},
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

constexpr std::int64_t kSampleSlab = 1 << 20;

/// Every so-manyth value, and `scales` gets all of them.
std::vector<float> read_sample(MatrixInput& input, SlabScales& scales) {
  const std::int64_t rows = input.rows();
  const std::int64_t cols = input.cols();
  std::vector<float> sample(static_cast<std::size_t>(statistics::sample_size(rows * cols)));
  const std::int64_t stride = statistics::sample_stride(rows * cols);
  // A 1-D tensor is one row: it is cut by columns, at blocks.
  const std::int64_t unit = decode::column_granularity(input.encoding());
  const std::int64_t step = std::max<std::int64_t>(unit, kSampleSlab / rows / unit * unit);
  for (std::int64_t first = 0; first < cols; first += step) {
    const decode::EncodedMatrix slab = input.column_slab(first, std::min(step, cols - first));
    decode::decode_strided(slab, cols, stride, sample);
    scales.add(slab);
  }
  return sample;
}

/// Why a sample has no angles.
std::string missing_text(const statistics::SampleAngles& angles) {
  if (angles.is_constant) {
    return "constant: theta_seed is 0, no theta_qq";
  }
  if (angles.count < statistics::kMinSampled) {
    return "fewer than 4 values";
  }
  return std::isnan(angles.theta_seed) ? "holds values that are not finite" : "";
}

void sample_vector(engine::SourceWatch& watch, const model::TensorRecord& tensor, bool with_signs,
                   results::TensorSample& out) {
  if (tensor.stored.size() != 1) {
    out.missing = "stored in several parts";
    return;
  }
  const model::MatrixRecord record = engine::plain_record(watch.files(), tensor);
  if (!decode::is_decodable(record.encoding)) {
    out.missing = "encoding " + record.encoding.label + " cannot be decoded";
    return;
  }
  try {
    const auto input = engine::make_streamed_input(watch, record);
    SlabScales scales(input->rows(), input->cols(),
                      with_signs ? std::optional(input->sign_flip_key()) : std::nullopt);
    std::vector<float> sample = read_sample(*input, scales);
    out.scales = scales.figures();
    out.scales_missing = scales.is_finite() ? statistics::missing_scales(tensor.count, out.scales)
                                            : "holds values that are not finite";
    out.angles = statistics::sample_angles(sample, true);
    out.missing = missing_text(out.angles);
  } catch (const Error& error) {
    out.missing = error.what();
  }
}

/// Adds the scales of `matrix` to those of its tensor. Scales of a type that is not decoded count
/// for nothing.
void add_block_scales(engine::SourceWatch& watch, const model::MatrixRecord& matrix,
                      decode::Moments& moments) {
  for (const model::CompanionPart& companion : matrix.companions) {
    const decode::Encoding encoding = decode::plain_encoding(companion.type);
    const std::int64_t count = companion.part.rows * companion.part.cols;
    if (companion.role != decode::CompanionRole::kScale || count <= 0 ||
        !decode::is_decodable(encoding)) {
      continue;
    }
    const input::StoredTensor& stored =
        watch.files().tensors[static_cast<std::size_t>(companion.part.tensor)];
    std::vector<std::byte> bytes(companion.part.bytes);
    watch.files().shards[static_cast<std::size_t>(stored.shard)].source->read(companion.part.offset,
                                                                              bytes);
    watch.was_read(companion.part.tensor);
    std::vector<float> values(static_cast<std::size_t>(count));
    decode::decode_row(encoding, bytes, values);
    moments = decode::merge(moments, decode::moments_of(values.data(), 1, count, count));
  }
}

/// Of the selected matrices in blocks of float8, gathered by their tensors.
void add_block_scales(const engine::SelectedModel& model, results::RunDescription& description) {
  engine::SourceWatch watch(model.files);
  std::unordered_map<std::string_view, decode::Moments> of_tensor;
  for (const std::int64_t selected : model.selected) {
    const model::MatrixRecord& matrix = model.index.matrices[static_cast<std::size_t>(selected)];
    if (matrix.table == model::ResultTable::kMatrix &&
        matrix.encoding.scheme == decode::Scheme::kFp8Block && matrix.unsupported.empty()) {
      add_block_scales(watch, matrix, of_tensor[matrix.tensor]);
    }
  }
  watch.require_unchanged();
  for (std::size_t i = 0; i < model.index.tensors.size(); ++i) {
    const auto found = of_tensor.find(model.index.tensors[i].name);
    if (found != of_tensor.end() && found->second.count > 0) {
      const decode::Moments& moments = found->second;
      description.tensor_samples[i].block_scales = {
          moments.count, moments.mean, decode::standard_deviation(moments) / moments.mean};
    }
  }
}

/// Completes `description` with the classes of all tensors and the angles of those of one side, and
/// with how they are made. A tensor that cannot be read or decoded says why. Memory: one sample and
/// a slab. Errors: SystemError E-INPUT-CHANGED.
void add_samples(const engine::RunSettings& settings, const engine::SelectedModel& model,
                 results::RunDescription& description) {
  description.sampled = true;
  engine::SourceWatch watch(model.files);
  for (const model::TensorRecord& tensor : model.index.tensors) {
    results::TensorSample& sample = description.tensor_samples.emplace_back();
    sample.organ_class = settings.class_of(tensor.name);
    if (!tensor.in_matrix && tensor.shape.size() == 1 && tensor.count > 0) {
      sample_vector(watch, tensor, settings.options.sign_flip_draws > 0, sample);
    }
  }
  watch.require_unchanged();
  Json document = Json::of(parse_json(description.settings_json, "the settings", {}));
  document["sample"] = {{"most", statistics::kMaxSampled},
                        {"bins", statistics::kSeedBins},
                        {"entropy_weight", statistics::kEntropyWeight},
                        {"kurtosis_weight", statistics::kKurtosisWeight},
                        {"spacing_weight", statistics::kSpacingWeight}};
  description.settings_json = document.dump(1);
}

}  // namespace

engine::WorkPlan plan_run(const engine::RunSettings& settings, const engine::SelectedModel& model,
                          const std::vector<std::unique_ptr<Backend>>& backends) {
  std::vector<std::int64_t> rows;
  for (std::size_t row = 0; row < model.selected.size(); ++row) {
    if (model.index.matrices[static_cast<std::size_t>(model.selected[row])].unsupported.empty()) {
      rows.push_back(static_cast<std::int64_t>(row));
    }
  }
  const std::vector<engine::RowWork> works =
      spectrum_works(model, backends, settings.options, row_options(settings), rows);
  return engine::plan_job(works, static_cast<std::int64_t>(model.selected.size()),
                          lanes_of(backends, row_options(settings)), settings.ram_budget);
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

engine::RunOutcome measure_model(const engine::RunSettings& settings,
                                 const engine::RunHooks& hooks) {
  engine::JobRun run = engine::begin_run(settings);
  const bool needs_blas = settings.backend != engine::BackendChoice::kCuda;
  const std::vector<std::jthread> loading =
      needs_blas ? load_blas_ahead(settings.blas_core) : std::vector<std::jthread>();
  engine::DevicesAhead devices(settings);
  engine::SelectedModel model = engine::open_selected(settings, hooks.stop);
  if (model.copies != nullptr) {
    model.copies->make_folder();
  }
  if (settings.verify) {
    const std::uint64_t bytes = input::verify_files(model.files, settings.threads, hooks.stop);
    run.messages.push_back(fmt::format("{} files, {}: their SHA-256 is the published one",
                                       model.files.shards.size(), data_text(bytes)));
  }
  std::string note;
  std::vector<std::unique_ptr<Backend>> backends =
      engine::open_backends(settings, devices.take(), note);
  run.reader = engine::open_reader(settings.reading, {&model.files});
  run.description = describe_run(settings, model, backends, *run.reader);
  if (settings.class_of != nullptr) {
    add_samples(settings, model, run.description);
    add_block_scales(model, run.description);
  }
  engine::add_warnings(model.files, model.index, "", run.messages);
  run.messages.insert(run.messages.end(), model.notes.begin(), model.notes.end());
  run.messages.push_back(note);
  const std::shared_ptr<input::ShardCopies> copies = model.copies;
  auto job = std::make_unique<SpectrumJob>(std::move(model), std::move(backends), settings.options,
                                           row_options(settings));
  engine::RunOutcome outcome = engine::run_job(std::move(job), std::move(run), hooks);
  if (copies != nullptr && hooks.message) {
    hooks.message(input::copies_text(*copies));
  }
  return outcome;
}

}  // namespace vindex::commands
