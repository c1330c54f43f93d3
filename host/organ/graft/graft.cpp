// Owns the steps of a graft: open, plan, check, compose or only report.
#include "graft.hpp"

#include "graft_checks.hpp"
#include "source_facts.hpp"

#include "core/files/output_target.hpp"
#include "core/process/parallel.hpp"
#include "organ/opening/open_gguf.hpp"
#include "organ/source/tensor_pair.hpp"
#include "organ/writing/compose_folder.hpp"
#include "organ/writing/provenance.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace vindex::organ {
namespace {

/// What comparing two tensors takes: decoded and encoded slabs of both.
constexpr std::uint64_t kAncestryThreadBytes = std::uint64_t{24} << 20U;

GraftSide side_of(const GgufSource& model) {
  return {.path = model.path(),
          .architecture = model.architecture(),
          .name = model.text("general.name").value_or(""),
          .tensors = model.tensors().size(),
          .files = model.files().size()};
}

bool is_matrix(const OrganTensor& tensor) {
  const std::uint64_t count = element_count(tensor.dimensions);
  return tensor.dimensions.size() >= 2 && count > tensor.dimensions.front();
}

/// Tensors of donor and host of one name and shape.
using Pairs = std::vector<std::pair<std::size_t, std::size_t>>;

/// Matrices that are grafted, beside the host's of the donor's own name: what a map moves to
/// another block is no relative of the block that it replaces. Where there are none, the embedding.
Pairs related_pairs(const GgufSource& host, const GgufSource& donor, const GraftPlan& plan) {
  Pairs pairs;
  const auto add = [&](std::size_t index) {
    const OrganTensor& tensor = donor.tensors()[index];
    const auto there = host.find(tensor.name);
    if (there && is_matrix(tensor) &&
        same_shape(tensor.dimensions, host.tensors()[*there].dimensions)) {
      pairs.emplace_back(index, *there);
    }
  };
  for (const Graft& graft : plan.grafts) {
    add(graft.donor);
  }
  const auto embedding = donor.find("token_embd.weight");
  if (pairs.empty() && embedding) {
    add(*embedding);
  }
  return pairs;
}

std::vector<Likeness> likeness_of(const GgufSource& host, const GgufSource& donor,
                                  const Pairs& pairs, std::int32_t threads) {
  std::vector<Likeness> found(pairs.size());
  for_each_index(pairs.size(), thread_count(kAncestryThreadBytes, threads),
                 [&](std::size_t /*worker*/, std::size_t i) {
                   const PlacedTensor a = placed(host, pairs[i].second);
                   const PlacedTensor b = placed(donor, pairs[i].first);
                   const PairSample sample = compare_tensors(a, b, kAncestryValues);
                   found[i] = {.tensor = b.name, .values = sample.values, .of = sample.of};
                   if (!std::isnan(sample.report.cosine)) {
                     found[i].cosine = sample.report.cosine;
                   }
                 });
  return found;
}

std::vector<ComposedTensor> composed_tensors(const GgufSource& host, const GgufSource& donor,
                                             const GraftPlan& plan) {
  std::vector<ComposedTensor> tensors;
  auto graft = plan.grafts.begin();
  for (std::size_t i = 0; i < host.tensors().size(); ++i) {
    if (std::find(plan.dropped.begin(), plan.dropped.end(), i) != plan.dropped.end()) {
      continue;
    }
    tensors.push_back(passed_through(host, i));
    if (graft != plan.grafts.end() && graft->host == i) {
      auto dimensions = std::move(tensors.back().layout.dimensions);  // trailing ones: the host's
      tensors.back() = passed_through(donor, graft->donor);
      tensors.back().layout.name = graft->name;
      tensors.back().layout.dimensions = std::move(dimensions);
      ++graft;
    }
  }
  for (; graft != plan.grafts.end(); ++graft) {
    tensors.push_back(passed_through(donor, graft->donor));
    tensors.back().layout.name = graft->name;
  }
  return tensors;
}

std::string wish_text(const GraftSettings& settings) {
  std::string text = settings.types.empty() ? "all" : settings.types;
  if (!settings.layers.empty()) {
    text += " of blocks " + settings.layers;
  }
  if (!settings.map.empty()) {
    text += " as " + settings.map;
  }
  return text;
}

std::string name_or_path(const GraftSide& side) { return side.name.empty() ? "model" : side.name; }

ComposeReport write_graft(const GgufSource& host, const GgufSource& donor, const GraftPlan& plan,
                          const GraftReport& report) {
  const GraftSettings& settings = report.settings;
  std::vector<ComposedTensor> tensors = composed_tensors(host, donor, plan);
  Provenance provenance;
  provenance.parents = {&host, &donor};
  provenance.history = fmt::format("graft: {} from {} into {}", wish_text(settings),
                                   name_or_path(report.donor), name_or_path(report.host));
  provenance.name =
      settings.name.empty()
          ? fmt::format("{} with {} of {}", name_or_path(report.host),
                        settings.types.empty() ? "all" : settings.types, name_or_path(report.donor))
          : settings.name;
  gguf::KeySection keys = changed_keys(host, tensors, provenance);
  // What the host lacks of its model, the result lacks too.
  const std::uint64_t total = tensors.size() + host.tensors_total() - host.tensors().size();
  const Composition composition =
      split_by_size(std::move(keys), std::move(tensors), settings.shard_bytes);
  ComposeOptions options;
  options.replace = settings.replace;
  options.threads = settings.threads;
  options.stop = settings.stop;
  for (const GgufSource* model : {&host, &donor}) {
    const std::vector<std::string> own = model->input_paths();
    options.inputs.insert(options.inputs.end(), own.begin(), own.end());
  }
  if (means_organ_folder(settings.output, host)) {
    return compose_folder(composition, settings.output, options,
                          {settings.tool, total, "that of the host " + host.path()});
  }
  return compose(composition, settings.output, options);
}

std::vector<GraftedTensor> grafted_tensors(const GgufSource& host, const GgufSource& donor,
                                           const GraftPlan& plan) {
  std::vector<GraftedTensor> grafted;
  for (const Graft& graft : plan.grafts) {
    const OrganTensor& tensor = donor.tensors()[graft.donor];
    GraftedTensor one = {.name = graft.name,
                         .donor_name = tensor.name,
                         .organ = classify(graft.name),
                         .dimensions = tensor.dimensions,
                         .host_type = {},
                         .donor_type = tensor.type,
                         .bytes = tensor.bytes};
    if (graft.host) {
      one.host_type = host.tensors()[*graft.host].type;
    }
    grafted.push_back(std::move(one));
  }
  return grafted;
}

[[noreturn]] void throw_nothing(const GraftSettings& settings, const ModelFacts& donor) {
  std::set<std::string_view> classes;
  for (const gguf::TensorLayout& tensor : donor.tensors) {
    classes.insert(class_name(classify(tensor.name).organ_class));
  }
  throw UsageError(
      "E-GRAFT-NOTHING",
      fmt::format("no tensor of the donor is {}; it has {}. Embeddings and the output's norm are "
                  "in no block: leave --layers out, or add -1 to it",
                  wish_text(settings), fmt::join(classes, ", ")));
}

}  // namespace

std::string_view outcome_name(GraftOutcome outcome) {
  constexpr std::string_view kNames[] = {"written", "dry-run", "refused", "stopped"};
  return kNames[static_cast<std::size_t>(outcome)];
}

GraftReport graft_models(const GraftSettings& settings) {
  const GraftRequest request =
      parse_graft_request(settings.types, settings.layers, settings.map, settings.allow_missing);
  const auto host = open_gguf(settings.host);
  if (!settings.dry_run) {
    means_organ_folder(settings.output, *host)
        ? require_free_organ_folder(settings.output, settings.shard_bytes)
        : require_free_target(settings.output, settings.replace, "--force");
  }
  const auto donor = open_gguf(settings.donor);
  if (!settings.dry_run) {  // compose() looks at every file; this one before anything is compared
    const std::string target[] = {settings.output};
    require_no_input(target, host->input_paths());
    require_no_input(target, donor->input_paths());
  }
  const ModelFacts host_facts = facts_of(*host);
  const ModelFacts donor_facts = facts_of(*donor);
  const GraftPlan plan = plan_graft(host_facts.tensors, donor_facts.tensors, request);
  if (plan.grafts.empty() && plan.refusals.empty()) {
    throw_nothing(settings, donor_facts);
  }
  GraftReport report;
  report.settings = settings;
  report.host = side_of(*host);
  report.donor = side_of(*donor);
  report.grafted = grafted_tensors(*host, *donor, plan);
  report.refusals = plan.refusals;
  for (const std::size_t index : plan.dropped) {
    report.dropped.push_back(host->tensors()[index].name);
  }
  report.findings = check_graft(host_facts, donor_facts, plan);
  report.likeness =
      likeness_of(*host, *donor, related_pairs(*host, *donor, plan), settings.threads);
  if (!plan.grafts.empty()) {
    for (GraftFinding& finding : check_ancestry(report.likeness)) {
      report.findings.push_back(std::move(finding));
    }
  }
  std::stable_sort(report.findings.begin(), report.findings.end(),
                   [](const GraftFinding& a, const GraftFinding& b) { return a.level < b.level; });
  if (plan.grafts.empty() || is_refused(report.findings, settings.force)) {
    return report;
  }
  report.outcome = GraftOutcome::kDryRun;
  if (!settings.dry_run) {
    report.written = write_graft(*host, *donor, plan, report);
    report.outcome = report.written.stopped ? GraftOutcome::kStopped : GraftOutcome::kWritten;
  }
  return report;
}

}  // namespace vindex::organ
