// Owns the steps of an experts run, and how cores are shared between groups and within one.
#include "experts_run.hpp"

#include "expert_job.hpp"
#include "experts_cells.hpp"

#include "blas/blas_library.hpp"
#include "core/process/parallel.hpp"
#include "engine/devices/backends.hpp"
#include "engine/run/description_parts.hpp"
#include "engine/run/job_frame.hpp"
#include "engine/run/opening.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

namespace vindex::commands {

namespace {

constexpr std::uint64_t kMaxCutBytes = 128ULL << 20U;
constexpr std::uint64_t kMinCutBytes = 4ULL << 20U;
/// Of the budget, what groups may take together beside what finished rows wait in.
constexpr double kGroupShare = 0.75;

std::vector<model::ExpertGroup> groups_of(const ExpertsSettings& settings,
                                          const engine::SelectedModel& model) {
  std::vector<model::ExpertGroup> groups =
      model::expert_groups(model.index, settings.run.selection);
  if (!groups.empty()) {
    return groups;
  }
  if (model::expert_groups(model.index, {}).empty()) {
    throw MissingInputError("E-NOTHING",
                            fmt::format("{}: the model has no routed experts to compare",
                                        printable(settings.run.model)));
  }
  model::Selection experts = settings.run.selection;
  experts.blocks = {model::Block::kRoutedExpert};
  throw UsageError("E-SELECTION", fmt::format("{}: {}", printable(settings.run.model),
                                              model::empty_selection_text(model.index, experts)));
}

/// How groups share cores and memory: as many at once as there are cores and memory for, the cores
/// that are left inside them.
struct Sharing {
  std::vector<std::int32_t> calls;
  ExpertOptions options;
};

Sharing share(const ExpertsSettings& settings, const engine::SelectedModel& model,
              const std::vector<model::ExpertGroup>& groups,
              const std::vector<std::unique_ptr<Backend>>& backends) {
  Sharing out;
  out.options.vectors = settings.vectors;
  for (const model::ExpertGroup& group : groups) {
    out.options.experts =
        std::max(out.options.experts, static_cast<std::int64_t>(group.members.size()));
  }
  const auto devices = static_cast<std::int64_t>(backends.size());
  const std::int64_t cores = backends.front()->limits().concurrent_calls;
  const auto at_once = static_cast<std::uint64_t>(
      std::min<std::int64_t>(cores * devices, static_cast<std::int64_t>(groups.size())));
  out.options.cut_bytes =
      std::clamp(settings.run.ram_budget / (8 * at_once), kMinCutBytes, kMaxCutBytes);
  std::uint64_t largest = 1;
  for (const model::ExpertGroup& group : groups) {
    if (group.record.unsupported.empty()) {
      const ExpertMemory memory = expert_memory(model.index, group, out.options, *backends.front());
      largest = std::max(largest, memory.pieces + memory.workspace + memory.row);
    }
  }
  const auto room = static_cast<std::int64_t>(
      kGroupShare * static_cast<double>(settings.run.ram_budget) / static_cast<double>(largest));
  const std::int64_t calls = std::clamp<std::int64_t>(
      std::min(room, static_cast<std::int64_t>(at_once)) / devices, 1, cores);
  out.calls.assign(backends.size(), static_cast<std::int32_t>(calls));
  if (backends.front()->limits().uses_host_cores) {
    out.options.threads = static_cast<std::int32_t>(cores / calls);
  }
  return out;
}

void describe_experts(const ExpertsSettings& settings, const engine::SelectedModel& model,
                      const std::vector<model::ExpertGroup>& groups,
                      const std::vector<std::unique_ptr<Backend>>& backends, const Sharing& sharing,
                      engine::JobFrame& frame) {
  results::RunDescription& run =
      frame.describe(results::FileSchema::kExperts, settings.run.model,
                     fmt::format("Experts of {}", printable(settings.run.model)), backends);
  run.fingerprint.emplace_back("k", std::to_string(settings.vectors));
  frame.add_inputs(model.files);
  frame.complete({{"k", settings.vectors}}, engine::shape_json(model.index.shape));
  for (Json& backend : frame.environment()["back_ends"].elements()) {
    backend["groups_at_once"] = sharing.calls.front();
    backend["threads_of_a_group"] = sharing.options.threads;
  }
  for (const model::ExpertGroup& group : groups) {
    run.matrices.push_back(group.record);
  }
  run.scales["expert"] = results::ScaleValues::counted(sharing.options.experts);
  run.scales["expert_other"] = results::ScaleValues::counted(sharing.options.experts);
  if (settings.vectors > 0) {
    run.optional_columns = results::optional_names(kExpertsCells, kExpertsArrays);
  }
}

/// Multiplications and additions a second that `threads` threads do with the library's rank update,
/// the best of three.
double measured_product_rate(std::int32_t threads) {
  constexpr std::int64_t kOrder = 1024;
  const blas::ReferenceBlas& library = blas::reference_blas();
  if (library.functions == nullptr) {
    return 0.0;
  }
  const auto count = static_cast<std::size_t>(threads);
  const auto size = static_cast<std::size_t>(kOrder * kOrder);
  std::vector<std::vector<float>> a(count, std::vector<float>(size, 0.5F));
  std::vector<std::vector<float>> c(count, std::vector<float>(size));
  double best = 0.0;
  for (int round = 0; round < 4; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    for_each_index(count, count, [&](std::size_t, std::size_t i) {
      library.rank_update(kOrder, a[i].data(), c[i].data());
    });
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    const auto order = static_cast<double>(kOrder);
    const double rate = static_cast<double>(count) * order * (order + 1.0) * order / seconds;
    best = round == 0 ? 0.0 : std::max(best, rate);  // the first one warms up
  }
  return best;
}

/// 0 where there is no memory to find it out with: results that are complete do without.
double library_rate(std::int32_t threads) {
  try {
    return measured_product_rate(threads);
  } catch (const OutOfMemory&) {
    return 0.0;
  } catch (const std::bad_alloc&) {
    return 0.0;
  }
}

}  // namespace

ExpertsOutcome measure_experts(const ExpertsSettings& settings, const engine::RunHooks& hooks) {
  engine::JobFrame frame(settings.run);
  engine::SelectedModel model = engine::open_selected(settings.run, hooks.stop);
  std::vector<model::ExpertGroup> groups = groups_of(settings, model);
  std::string note;
  engine::RunSettings backend_settings = settings.run;
  backend_settings.options.mode = SpectrumMode::kFast;  // of the vectors of --k
  std::vector<std::unique_ptr<Backend>> backends = engine::open_backends(backend_settings, note);
  const bool on_host = backends.front()->limits().uses_host_cores;
  const std::int32_t cores = backends.front()->limits().concurrent_calls;
  const Sharing sharing = share(settings, model, groups, backends);
  frame.open_reader({&model.files});
  describe_experts(settings, model, groups, backends, sharing, frame);
  frame.say_warnings(model.files, model.index);
  for (const std::string& text : model.notes) {
    if (text.starts_with("warning W-SELECTION")) {
      frame.say(text);
    }
  }
  frame.say(note);
  const auto tally = std::make_shared<ExpertTally>();
  ExpertsOutcome outcome;
  outcome.run = engine::run_job(
      std::make_unique<ExpertJob>(std::move(model), std::move(groups), std::move(backends),
                                  sharing.options, sharing.calls, tally),
      frame.take_run(), hooks);
  outcome.floor.seconds = outcome.run.seconds;
  outcome.floor.reading_seconds = outcome.run.reading.busy_seconds;
  outcome.floor.flops = tally->flops;
  if (on_host && !outcome.run.stopped && outcome.floor.flops > 0.0) {
    outcome.floor.flops_per_second = library_rate(cores);
    if (outcome.floor.flops_per_second > 0.0) {
      outcome.floor.product_seconds = outcome.floor.flops / outcome.floor.flops_per_second;
    }
  }
  return outcome;
}

std::string floor_text(const ExpertsFloor& floor) {
  const double longer = std::max(floor.reading_seconds, floor.product_seconds);
  std::string text =
      fmt::format("{:.1f} s; reading alone {:.1f} s", floor.seconds, floor.reading_seconds);
  if (floor.product_seconds > 0.0) {
    text += fmt::format(", products alone {:.1f} s (at {:.0f} GFLOP/s)", floor.product_seconds,
                        1e-9 * floor.flops_per_second);
  }
  return longer > 0.0 ? text + fmt::format(": {:.2f} times the longer", floor.seconds / longer)
                      : text;
}

}  // namespace vindex::commands
