// Owns the steps of a comparing run: opening, pairing, back ends, the description, what stayed
// unpaired.
#include "compare_run.hpp"

#include "pair_cells.hpp"
#include "pair_job.hpp"

#include "core/process/parallel.hpp"
#include "engine/devices/backends.hpp"
#include "engine/run/description_parts.hpp"
#include "engine/run/job_frame.hpp"
#include "engine/run/opening.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace vindex::commands {

namespace {

engine::OpenModel open_model_side(const std::string& path, const std::string& config,
                                  std::int32_t threads, const std::stop_token& stop) {
  engine::OpenModel model = engine::open_whole(path, config, threads, stop);
  if (model.index.matrices.empty()) {
    throw MissingInputError(
        "E-NOTHING",
        fmt::format("{}: nothing to compare: the model has no weight matrix", printable(path)));
  }
  return model;
}

/// The pairs and lonely matrices that `selection` wants.
model::Pairing select_pairs(const CompareSettings& settings, const engine::OpenModel& a,
                            const engine::OpenModel& b) {
  const auto wanted_of = [&](const model::ModelIndex& index, const model::Selection& selection) {
    const std::vector<std::int64_t> selected = model::select(index, selection);
    return std::set<std::int64_t>(selected.begin(), selected.end());
  };
  const std::set<std::int64_t> in_a = wanted_of(a.index, settings.run.selection);
  if (in_a.empty()) {
    throw UsageError("E-SELECTION",
                     fmt::format("{}: {}", printable(settings.model_a),
                                 model::empty_selection_text(a.index, settings.run.selection)));
  }
  // Layers are those of A: where a map moves them, they say nothing of B's.
  model::Selection selection_b = settings.run.selection;
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
std::unique_ptr<MeasuredSpectra> open_spectra(const std::string& path,
                                              const engine::OpenModel& model, const char* side) {
  auto spectra = std::make_unique<MeasuredSpectra>(path);
  for (const auto& line : engine::file_lines(model.files)) {
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

SpectraOfBoth open_spectra(const CompareSettings& settings, const engine::OpenModel& a,
                           const engine::OpenModel& b) {
  if (settings.spectra_a.empty() != settings.spectra_b.empty()) {
    throw UsageError("E-SPECTRA",
                     "--spectra-a and --spectra-b go together: results files of both models");
  }
  if (settings.spectra_a.empty()) {
    return {};
  }
  return {open_spectra(settings.spectra_a, a, "A"), open_spectra(settings.spectra_b, b, "B")};
}

void list_unpaired(const std::vector<model::Unpaired>& unpaired, const engine::OpenModel& model,
                   const char* side, results::RunDescription& run) {
  for (const model::Unpaired& one : unpaired) {
    run.compare.unpaired.push_back(
        {side, model::matrix_name(model.index.matrices[static_cast<std::size_t>(one.matrix)]),
         one.reason});
  }
}

/// Both records of every pair, and how its rows may lie.
std::vector<JobPair> job_pairs(const engine::OpenModel& a, const engine::OpenModel& b,
                               const std::vector<model::MatrixPair>& pairs) {
  const bool gguf_a = a.files.format == input::ContainerFormat::kGguf;
  const bool gguf_b = b.files.format == input::ContainerFormat::kGguf;
  std::map<std::pair<std::string, std::int64_t>, std::int64_t> heights;
  std::vector<JobPair> out;
  out.reserve(pairs.size());
  for (const model::MatrixPair& matrices : pairs) {
    JobPair pair{.matrices = matrices,
                 .a = a.index.matrices[static_cast<std::size_t>(matrices.a)],
                 .b = b.index.matrices[static_cast<std::size_t>(matrices.b)]};
    if (!matrices.parts_a.empty()) {
      pair.a = model::record_of_parts(a.index, matrices.parts_a, pair.b);
    } else if (!matrices.parts_b.empty()) {
      pair.b = model::record_of_parts(b.index, matrices.parts_b, pair.a);
    } else if (gguf_a != gguf_b && pair.a.block == model::Block::kAttention &&
               (pair.a.role == "q_proj" || pair.a.role == "k_proj") && !pair.a.transposed &&
               !pair.b.transposed) {
      const auto [found, is_new] = heights.try_emplace({pair.a.role, pair.a.rows}, 0);
      if (is_new) {
        found->second = model::head_height(a.files, pair.a.role, pair.a.rows);
        found->second = found->second > 0 ? found->second
                                          : model::head_height(b.files, pair.a.role, pair.a.rows);
      }
      pair.order = {.height = found->second,
                    .of_a = gguf_a ? RotaryRows::kPairs : RotaryRows::kHalves};
    }
    out.push_back(std::move(pair));
  }
  return out;
}

void describe_compare(const CompareSettings& settings, const engine::OpenModel& a,
                      const engine::OpenModel& b, const model::Pairing& pairing,
                      const std::vector<JobPair>& pairs, const SpectraOfBoth& spectra,
                      const PairComputing& computing, engine::JobFrame& frame) {
  results::RunDescription& run = frame.describe(
      results::FileSchema::kCompare, settings.model_a,
      fmt::format("{} beside {}", printable(settings.model_a), printable(settings.model_b)),
      computing.backends, computing.threads);
  run.fingerprint.emplace_back("map", settings.map_text);
  const bool computed = computing.request.needs_back_end();
  if (computed) {
    run.mode = engine::mode_name(settings.run.options.mode);
    run.fingerprint.emplace_back("mode", run.mode);
  }
  frame.add_inputs(a.files, "a", "a ");
  frame.add_inputs(b.files, "b", "b ");
  for (const auto& [side, file, path] :
       {std::tuple<const char*, const MeasuredSpectra*, std::string>{"spectra_a", spectra.a.get(),
                                                                     settings.spectra_a},
        {"spectra_b", spectra.b.get(), settings.spectra_b}}) {
    if (file != nullptr) {
      run.fingerprint.emplace_back(side, "values " + file->digest());
      frame.inputs()[side] = {{"path", printable(path)}, {"values_sha256", file->digest()}};
    }
  }
  frame.complete(
      {{"map", settings.map_text},
       {"spectra", spectra.a != nullptr},
       {"delta", settings.delta},
       {"k", settings.subspace},
       {"mode", computed ? Json(run.mode) : Json(nullptr)},
       {"svd_route", computed ? Json(settings.run.options.svd_route) : Json(nullptr)}},
      {{"a", engine::shape_json(a.index.shape)}, {"b", engine::shape_json(b.index.shape)}});
  run.compare.other_model = settings.model_b;
  run.compare.spectra = spectra.a != nullptr;
  if (settings.delta) {
    run.optional_columns.emplace_back(kDeltaColumns);
  }
  for (std::int64_t i = 1; i <= settings.subspace; ++i) {
    run.scales[kAngleScale].integers.push_back(i);
  }
  for (const JobPair& pair : pairs) {
    run.matrices.push_back(pair.a);
    run.compare.partners.emplace_back(pair.b.tensor, pair.b.encoding.label);
  }
  list_unpaired(pairing.a, a, "a", run);
  list_unpaired(pairing.b, b, "b", run);
}

/// What the run computes with, and the line that says so.
PairComputing open_computing(const CompareSettings& settings, std::string& note) {
  PairComputing computing{
      .request = {.delta = settings.delta,
                  .subspace = settings.subspace,
                  .options = settings.run.options},
      .backends = {},
      .threads = settings.run.threads > 0 ? settings.run.threads : usable_cores()};
  if (!computing.request.needs_back_end()) {
    note = fmt::format("back end: cpu ({} workers; comparing needs no device)", computing.threads);
    return computing;
  }
  computing.request.options.vectors = static_cast<std::int32_t>(settings.subspace);
  engine::RunSettings opening = settings.run;
  opening.options = computing.request.options;
  computing.backends = engine::open_backends(opening, note);
  return computing;
}

/// Angles lie in memory with every row until the run ends, and once more while it is published.
std::uint64_t angle_bytes(const CompareSettings& settings, std::size_t pairs) {
  return 2 * sizeof(double) * 2 * static_cast<std::uint64_t>(settings.subspace) * pairs;
}

}  // namespace

engine::RunOutcome compare_models(const CompareSettings& settings, const engine::RunHooks& hooks) {
  engine::JobFrame frame(settings.run);
  engine::OpenModel a =
      open_model_side(settings.model_a, settings.model_config_a, settings.run.threads, hooks.stop);
  engine::OpenModel b =
      open_model_side(settings.model_b, settings.model_config_b, settings.run.threads, hooks.stop);
  model::Pairing pairing = select_pairs(settings, a, b);
  SpectraOfBoth spectra = open_spectra(settings, a, b);
  std::vector<JobPair> pairs = job_pairs(a, b, pairing.pairs);
  std::string note;
  PairComputing computing = open_computing(settings, note);
  frame.open_reader({&a.files, &b.files});
  describe_compare(settings, a, b, pairing, pairs, spectra, computing, frame);
  frame.reserve(angle_bytes(settings, pairs.size()));
  for (const std::string& part : model::unmatched_parts(a.index, settings.run.selection)) {
    frame.say("warning W-SELECTION: " + part);
  }
  frame.say_warnings(a.files, a.index, "A: ");
  frame.say_warnings(b.files, b.index, "B: ");
  frame.say(note);
  return engine::run_job(std::make_unique<PairJob>(std::move(a), std::move(b), std::move(pairs),
                                                   std::move(spectra), std::move(computing)),
                         frame.take_run(), hooks);
}

}  // namespace vindex::commands
