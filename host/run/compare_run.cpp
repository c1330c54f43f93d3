#include "description_parts.hpp"
#include "pair_job.hpp"

#include <vindex/core/error.hpp>
#include <vindex/core/parallel.hpp>
#include <vindex/run/compare_run.hpp>
#include <vindex/run/measure_run.hpp>
#include <vindex/run/version.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

namespace vindex::run {

namespace {

std::unique_ptr<OpenModel> open_side(const std::string& path, const std::string& config,
                                     std::int32_t threads) {
  auto model = std::make_unique<OpenModel>();
  model->files = shard::open_model(path, {.model_config = config, .threads = threads});
  model::IndexOptions indexing;
  indexing.threads = threads;
  model->index = model::index_model(model->files, indexing);
  if (model->index.matrices.empty()) {
    throw MissingInputError(
        "E-NOTHING",
        fmt::format("{}: nothing to compare: the model has no weight matrix", printable(path)));
  }
  return model;
}

/// The pairs and lonely matrices that `selection` wants.
model::Pairing select_pairs(const CompareSettings& settings, const OpenModel& a,
                            const OpenModel& b) {
  const auto wanted_of = [&](const model::ModelIndex& index, const model::Selection& selection) {
    const std::vector<std::int64_t> selected = model::select(index, selection);
    return std::set<std::int64_t>(selected.begin(), selected.end());
  };
  const std::set<std::int64_t> in_a = wanted_of(a.index, settings.selection);
  if (in_a.empty()) {
    throw UsageError("E-SELECTION",
                     fmt::format("{}: {}", printable(settings.model_a),
                                 model::empty_selection_text(a.index, settings.selection)));
  }
  // Layers are those of A: where a map moves them, they say nothing of B's.
  model::Selection selection_b = settings.selection;
  if (!settings.map.empty()) {
    selection_b.layers.clear();
  }
  const std::set<std::int64_t> in_b = wanted_of(b.index, selection_b);
  model::Pairing pairing = model::pair_matrices(a.index, b.index, settings.map);
  std::erase_if(pairing.pairs,
                [&](const model::MatrixPair& pair) { return !in_a.contains(pair.a); });
  std::erase_if(pairing.a, [&](const model::Unpaired& one) { return !in_a.contains(one.matrix); });
  std::erase_if(pairing.b, [&](const model::Unpaired& one) { return !in_b.contains(one.matrix); });
  if (pairing.pairs.empty()) {
    throw FormatError(
        "E-NO-PAIR", printable(settings.model_a),
        fmt::format("no matrix has a partner in {} ({} here and {} there without one{}); two "
                    "models are compared by equal names, or by layer, block, role and shape",
                    printable(settings.model_b), pairing.a.size(), pairing.b.size(),
                    pairing.a.empty() ? "" : ", the first because " + pairing.a.front().reason));
  }
  return pairing;
}

/// Opens results file `path`. Errors: ConfigurationError E-SPECTRA-MODEL (78) where it was measured
/// from other files than `model`'s.
std::unique_ptr<results::MeasuredSpectra> open_spectra(const std::string& path,
                                                       const OpenModel& model, const char* side) {
  auto spectra = std::make_unique<results::MeasuredSpectra>(path);
  for (const auto& line : file_lines(model.files)) {
    const auto& found = spectra->fingerprint();
    if (std::find(found.begin(), found.end(), line) == found.end()) {
      throw ConfigurationError(
          "E-SPECTRA-MODEL",
          fmt::format("{} was not measured from the {} of model {} as it is now ({}); measure {} "
                      "again",
                      printable(path), printable(line.first), side, line.second, side));
    }
  }
  return spectra;
}

SpectraOfBoth open_spectra(const CompareSettings& settings, const OpenModel& a,
                           const OpenModel& b) {
  if (settings.spectra_a.empty() != settings.spectra_b.empty()) {
    throw UsageError("E-SPECTRA",
                     "--spectra-a and --spectra-b go together: results files of both models");
  }
  if (settings.spectra_a.empty()) {
    return {};
  }
  return {open_spectra(settings.spectra_a, a, "A"), open_spectra(settings.spectra_b, b, "B")};
}

void list_unpaired(const std::vector<model::Unpaired>& unpaired, const OpenModel& model,
                   const char* side, results::RunDescription& run) {
  for (const model::Unpaired& one : unpaired) {
    run.compare.unpaired.push_back(
        {side, model::matrix_name(model.index.matrices[static_cast<std::size_t>(one.matrix)]),
         one.reason});
  }
}

results::RunDescription describe(const CompareSettings& settings, const OpenModel& a,
                                 const OpenModel& b, const model::Pairing& pairing,
                                 const SpectraOfBoth& spectra, std::int32_t threads,
                                 const shard::BulkReader& reader) {
  results::RunDescription run;
  run.schema = results::FileSchema::kCompare;
  run.model = settings.model_a;
  run.backend = "cpu";
  describe_command(
      settings.command,
      fmt::format("{} beside {}", printable(settings.model_a), printable(settings.model_b)), run);
  run.fingerprint.emplace_back("numeric version", std::to_string(kNumericVersion));
  run.fingerprint.emplace_back("map", settings.map_text);
  Json inputs = Json::object();
  for (const auto& [side, model] : {std::pair<const char*, const OpenModel*>{"a", &a}, {"b", &b}}) {
    for (const auto& [name, value] : file_lines(model->files)) {
      run.fingerprint.emplace_back(fmt::format("{} {}", side, name), value);
    }
    inputs[side] = file_inputs(model->files);
  }
  for (const auto& [side, file, path] :
       {std::tuple<const char*, const results::MeasuredSpectra*, std::string>{
            "spectra_a", spectra.a.get(), settings.spectra_a},
        {"spectra_b", spectra.b.get(), settings.spectra_b}}) {
    if (file != nullptr) {
      run.fingerprint.emplace_back(side, "values " + file->digest());
      inputs[side] = {{"path", printable(path)}, {"values_sha256", file->digest()}};
    }
  }
  run.inputs_json = inputs.dump(1);
  run.settings_json = Json{{"map", settings.map_text},
                           {"spectra", spectra.a != nullptr},
                           {"threads", settings.threads},
                           {"ram_budget_bytes", settings.ram_budget},
                           {"ram_budget_source", settings.ram_budget_source},
                           {"worker", {settings.worker.index, settings.worker.count}}}
                          .dump(1);
  Json host = Json::array();
  host.push_back({{"backend", "cpu"}, {"concurrent_calls", threads}});
  run.environment_json = program_environment(reader, std::move(host)).dump(1);
  run.config_json =
      Json{{"a", shape_json(a.index.shape)}, {"b", shape_json(b.index.shape)}}.dump(1);
  run.compare.other_model = settings.model_b;
  run.compare.spectra = spectra.a != nullptr;
  for (const model::MatrixPair& pair : pairing.pairs) {
    const model::MatrixRecord& other = b.index.matrices[static_cast<std::size_t>(pair.b)];
    run.matrices.push_back(a.index.matrices[static_cast<std::size_t>(pair.a)]);
    run.compare.partners.emplace_back(other.tensor, other.encoding.label);
  }
  list_unpaired(pairing.a, a, "a", run);
  list_unpaired(pairing.b, b, "b", run);
  return run;
}

}  // namespace

RunOutcome compare_models(const CompareSettings& settings, const RunHooks& hooks) {
  JobRun run;
  run.noun = results::row_noun(results::FileSchema::kCompare);
  auto a = open_side(settings.model_a, settings.model_config_a, settings.threads);
  auto b = open_side(settings.model_b, settings.model_config_b, settings.threads);
  model::Pairing pairing = select_pairs(settings, *a, *b);
  SpectraOfBoth spectra = open_spectra(settings, *a, *b);
  const std::int32_t threads = settings.threads > 0 ? settings.threads : usable_cores();
  run.reader = std::make_unique<shard::BulkReader>(settings.reading);
  for (const OpenModel* model : {a.get(), b.get()}) {
    for (const shard::Shard& shard : model->files.shards) {
      run.reader->prepare(*shard.source);
    }
  }
  run.output = settings.output;
  run.description = describe(settings, *a, *b, pairing, spectra, threads, *run.reader);
  run.worker = settings.worker;
  run.restart = settings.restart;
  run.ram_budget = settings.ram_budget;
  for (const std::string& part : model::unmatched_parts(a->index, settings.selection)) {
    run.messages.push_back("warning W-SELECTION: " + part);
  }
  add_warnings(a->files, a->index, "A: ", run.messages);
  add_warnings(b->files, b->index, "B: ", run.messages);
  run.messages.push_back(
      fmt::format("back end: cpu ({} workers; comparing needs no device)", threads));
  auto job = std::make_unique<PairJob>(std::move(a), std::move(b), std::move(pairing.pairs),
                                       std::move(spectra), threads);
  return run_job(std::move(job), std::move(run), hooks);
}

}  // namespace vindex::run
