// Owns the steps of storing features: what is stored and as which type, batches of features from
// weights to the file, its publication.
#include "store_features.hpp"

#include "feature_file.hpp"
#include "gate_vector_layout.hpp"
#include "store_plan.hpp"
#include "vector_writer.hpp"

#include "commands/lookup/features/feature_source.hpp"
#include "core/digest.hpp"
#include "core/files/atomic_file.hpp"
#include "core/process/stop.hpp"
#include "engine/run/description_parts.hpp"
#include "engine/run/job_frame.hpp"
#include "model/selection/selection.hpp"
#include "results/parts/output_path.hpp"
#include "results/reading/results_reader.hpp"
#include "results/reading/validate.hpp"
#include "results/writing/results_writer.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <chrono>
#include <utility>

namespace vindex::commands {

namespace {

results::RunDescription description_of(const StoreSettings& settings, const FeatureSource& source,
                                       const StorePlan& plan) {
  engine::RunSettings own = settings.run;
  own.reading = {.threads = 1, .io_uring = false};  // nothing is read through it
  engine::JobFrame frame(own);
  frame.open_reader({});
  results::RunDescription& run = frame.describe(
      results::FileSchema::kGateVectors, settings.run.model,
      fmt::format("gate vectors of {}", printable(settings.run.model)), {}, settings.run.threads);
  const char* const role = settings.role == model::FeatureRole::kGate ? "gate_proj" : "up_proj";
  const std::string type(results::h5::type_name(stored_type(plan.type)));
  const std::string embedding_type(results::h5::type_name(stored_type(plan.embedding_type)));
  Sha256 sha;
  for (const results::StoredRow& row : plan.rows) {
    sha.update(results::row_key(row) + "\n");
  }
  run.fingerprint.emplace_back("features of", role);
  run.fingerprint.emplace_back(
      "matrices", fmt::format("{}, names {}", plan.rows.size(), hex(sha.finish()).substr(0, 16)));
  run.fingerprint.emplace_back("type", type + ", embedding " + embedding_type);
  run.fingerprint.emplace_back("entries of a feature", std::to_string(plan.named));
  run.fingerprint.emplace_back("tokenizer", settings.tokenizer);
  if (plan.embedding >= 0) {  // a key of config.json may say it, which no file of weights shows
    run.fingerprint.emplace_back("scale of the embedding",
                                 fmt::format("{}", source.scale().factor));
  }
  frame.add_inputs(source.files(), "model");
  frame.complete({{"features_of", role},
                  {"type", type},
                  {"embedding_type", embedding_type},
                  {"tokens_out", plan.named},
                  {"tokenizer", settings.tokenizer}},
                 {{"model", engine::shape_json(source.index().shape)}, {"width", plan.width}});
  run.attributes = {{kFeatureRoleAttribute, std::string(role)},
                    {kScaleSourceAttribute, plan.embedding < 0 ? "" : source.scale().source},
                    {kNoTokensAttribute, plan.no_tokens},
                    {"features", plan.features},
                    {"width", plan.width},
                    {"tokens_out", plan.named}};
  return frame.take_description();
}

/// Whether the output is there already, complete and of these settings.
bool is_there(const StoreSettings& settings, const std::string& output,
              const results::FileDescription& description) {
  if (!results::file_exists(output)) {
    return false;
  }
  results::require_replaceable(output, results::FileSchema::kGateVectors);
  if (settings.run.restart) {
    return false;
  }
  const results::ResultsReader reader(output, results::FileSchema::kGateVectors);
  results::require_same_fingerprint(description.fingerprint, reader.fingerprint(), output,
                                    "--restart discards it");
  return true;
}

/// Rows of gate vectors have no arrays.
class NoArrays final : public results::BulkSource {
 public:
  void sigma(const results::StoredRow& /*row*/, std::span<double> /*out*/) override {
    expects(false, "gate vectors have no spectra");
  }
  SingularVectors vectors(const results::StoredRow& /*row*/) override { return {}; }
  results::ArrayCell array(const results::StoredRow& /*row*/, std::size_t /*number*/) override {
    return {};
  }
};

void publish(const std::string& output, const results::FileDescription& description,
             const StorePlan& plan, const std::optional<model::Vocabulary>& vocabulary,
             const results::WriteAhead& features) {
  require_free_space(output, static_cast<std::uint64_t>(plan.features * plan.width) *
                                 results::h5::type_bytes(stored_type(plan.type)));
  AtomicFile file(output);
  {
    auto storage = results::FileStorage::borrow(file.descriptor(), file.temporary_path());
    std::vector<const results::StoredRow*> rows;
    for (const results::StoredRow& row : plan.rows) {
      rows.push_back(&row);
    }
    NoArrays none;
    results::write_results(storage, file.temporary_path(), results::FileExtent::kWhole, description,
                           rows, none, [&](results::h5::File& hdf5) {
                             features(hdf5);
                             if (vocabulary) {
                               write_vocabulary(hdf5, *vocabulary);
                             }
                           });
    storage.rethrow_failure();
  }
  file.flush();
  if (const auto wrong = results::validate_file(file.temporary_path()); !wrong.empty()) {
    throw Error(ExitCode::kInternal, "E-RESULTS-WRITTEN",
                "the file just written is not valid: " + wrong.front());
  }
  file.publish();
}

engine::RunOutcome outcome_of(const StorePlan& plan) {
  engine::RunOutcome outcome;
  outcome.total = std::ssize(plan.rows);
  for (std::size_t i = 0; i < plan.rows.size(); ++i) {
    const results::StoredRow& row = plan.rows[i];
    if (row.status == MatrixStatus::kMeasured) {
      continue;
    }
    ++outcome.unsupported;
    const std::string text = fmt::format("{}: {}", results::row_name(row), row.reason);
    outcome.troubles.push_back(text);
    // Matrices with other inputs are left out of a lookup too.
    if (outcome.first_failure < 0 && row.cols == plan.width) {
      outcome.exit_code = ExitCode::kMalformedInput;
      outcome.first_failure = static_cast<std::int64_t>(i);
      outcome.first_failure_reason = text;
    }
  }
  return outcome;
}

}  // namespace

engine::RunOutcome store_features(const StoreSettings& settings, const engine::RunHooks& hooks) {
  const auto started = std::chrono::steady_clock::now();
  const std::string output = results::resolve_output(settings.run.output);
  const auto source =
      open_weights(settings.run.model, settings.run.model_config, settings.run.threads, hooks.stop);
  StorePlan plan = plan_features(settings, *source);
  const results::FileDescription description =
      results::describe(description_of(settings, *source, plan));
  engine::RunOutcome outcome = outcome_of(plan);
  const std::int64_t stored = std::ssize(plan.matrices);
  if (is_there(settings, output, description)) {
    outcome.done_before = stored;
    return outcome;
  }
  const auto vocabulary = source->vocabulary(settings.tokenizer);
  std::vector<std::string> lines;
  engine::add_warnings(source->files(), source->index(), "", lines);
  for (const std::string& part : model::unmatched_parts(source->index(), settings.run.selection)) {
    lines.push_back("warning W-SELECTION: " + part);
  }
  for (const std::string& line : lines) {
    if (hooks.message) {
      hooks.message(line);
    }
  }
  const results::WriteAhead features = feature_writer(settings, *source, plan, hooks);
  try {
    publish(output, description, plan, vocabulary, features);
    outcome.measured_now = stored;
  } catch (const Stopped&) {
    outcome.stopped = true;
  }
  outcome.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  return outcome;
}

}  // namespace vindex::commands
