// Owns the steps of a CKA run: opening both dumps, the plan, the description, notes on what cannot
// be tested.
#include "cka_run.hpp"

#include "cka_cells.hpp"
#include "cka_job.hpp"

#include "core/process/parallel.hpp"
#include "engine/devices/backends.hpp"
#include "engine/plan/memory_budget.hpp"
#include "engine/run/description_parts.hpp"
#include "engine/run/job_frame.hpp"
#include "model/dump/dump.hpp"
#include "statistics/cka/cka.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

namespace vindex::commands {

namespace {

CkaSide open_dump_side(const std::string& path, const std::string& role, const std::string& layers,
                       const std::stop_token& stop) {
  CkaSide side;
  side.dump = model::open_dump(path, stop);
  const model::Selection wanted = model::parse_selection(layers, "", "", "");
  std::set<std::int32_t> there;
  for (const std::int64_t i : model::matrices_of_role(side.dump, role)) {
    const model::MatrixRecord& matrix = side.dump.index.matrices[static_cast<std::size_t>(i)];
    there.insert(matrix.layer);
    if (model::wants(wanted, matrix.layer, matrix.block, matrix.role)) {
      side.layers.push_back(i);
    }
  }
  if (there.empty()) {
    throw FormatError("E-CKA-LAYERS", printable(path),
                      fmt::format("no array {}.L in this dump; --role names another", role));
  }
  if (side.layers.empty()) {
    throw UsageError("E-SELECTION", fmt::format("{}: no layer of {} is selected; there are {}",
                                                printable(path), role, model::layers_text(there)));
  }
  return side;
}

/// Why there is no interval, and what to do; empty where there is one.
std::string no_interval(const ComparedRows& rows) {
  if (!rows.by_prompt) {
    return "no interval and no stages: the dumps have no `prompt` to leave out one by one (rows "
           "that are independent: dump prompt = 0, 1, 2, ...)";
  }
  const auto prompts = static_cast<std::int64_t>(rows.groups.size());
  return prompts >= statistics::kMinGroups
             ? ""
             : fmt::format("no interval and no stages: {} prompts, and it takes {}", prompts,
                           statistics::kMinGroups);
}

CkaShape cka_shape(const CkaSettings& settings, const CkaSide& a, const CkaSide& b,
                   const ComparedRows& rows) {
  CkaShape shape;
  shape.rows = rows.count;
  shape.layers_a = static_cast<std::int64_t>(a.layers.size());
  shape.layers_b = static_cast<std::int64_t>(b.layers.size());
  for (std::size_t layer = 0; layer < a.layers.size(); ++layer) {
    shape.width_a = std::max(shape.width_a, a.record(layer).cols);
  }
  for (std::size_t layer = 0; layer < b.layers.size(); ++layer) {
    shape.width_b = std::max(shape.width_b, b.record(layer).cols);
  }
  shape.permutations = few_orders(rows).empty() ? settings.permutations : 0;
  if (settings.interval && no_interval(rows).empty()) {
    shape.groups = static_cast<std::int64_t>(rows.groups.size());
  }
  for (const engine::RowRun& group : rows.groups) {
    shape.group_pairs += group.count > 1 ? group.count * group.count : 0;
  }
  return shape;
}

/// What the tiles may take: the budget less what finished rows take, shared by the devices. Memory
/// of a device counts by its share of what the device has.
CkaPlan plan_of(const CkaSettings& settings, const CkaShape& shape, std::int32_t threads,
                const std::vector<std::unique_ptr<Backend>>& backends) {
  const std::uint64_t row = 8 * sizeof(double) * static_cast<std::uint64_t>(shape.layers_b) + 1024;
  const std::uint64_t budget = settings.run.ram_budget;
  const std::uint64_t beside = engine::result_queue_budget(budget, shape.layers_a, row).bytes + row;
  const std::uint64_t share = budget > beside ? (budget - beside) / backends.size() : 0;
  const Backend& backend = *backends.front();
  const auto device = static_cast<double>(backend.limits().device_bytes);
  const InnerProductBytes bytes = [&](const InnerProductShape& products) {
    const InnerProductMemory memory = backend.inner_product_memory(products);
    const double of_device =
        device > 0.0 ? static_cast<double>(memory.device) / device * static_cast<double>(share)
                     : 0.0;
    return std::max(memory.host, static_cast<std::uint64_t>(of_device));
  };
  return plan_cka(shape, threads, bytes, share);
}

const char* pooling_name(engine::Pooling pooling) {
  return pooling == engine::Pooling::kNone ? "none"
                                           : (pooling == engine::Pooling::kMean ? "mean" : "last");
}

void describe_cka(const CkaSettings& settings, const CkaSide& a, const CkaSide& b,
                  const ComparedRows& rows, const CkaShape& shape, const CkaPlan& plan,
                  const std::vector<std::unique_ptr<Backend>>& backends, engine::JobFrame& frame) {
  results::RunDescription& run = frame.describe(
      results::FileSchema::kCka, settings.dump_a,
      fmt::format("CKA of {} and {}", printable(settings.dump_a), printable(settings.dump_b)),
      backends);
  run.compare.other_model = settings.dump_b;
  const std::string unit = rows.by_prompt ? "prompt" : "row";
  run.fingerprint.emplace_back("role", settings.role);
  run.fingerprint.emplace_back("pool", pooling_name(rows.pooling));
  run.fingerprint.emplace_back("permutations", std::to_string(shape.permutations));
  run.fingerprint.emplace_back("interval", std::to_string(shape.groups));
  frame.add_inputs(a.dump.files, "a", "a ");
  frame.add_inputs(b.dump.files, "b", "b ");
  frame.complete({{"role", settings.role},
                  {"pool", pooling_name(rows.pooling)},
                  {"permutations", shape.permutations},
                  {"interval", shape.groups > 0},
                  {"form", plan.by_rows ? "rows" : "features"},
                  {"tile", {plan.tile_a, plan.tile_b}}},
                 {{"a", engine::shape_json(a.dump.index.shape)},
                  {"b", engine::shape_json(b.dump.index.shape)}});
  for (std::size_t layer = 0; layer < a.layers.size(); ++layer) {
    run.matrices.push_back(a.record(layer));
    run.matrices.back().rows = rows.count;
  }
  std::vector<std::int64_t> layers_b;
  for (std::size_t layer = 0; layer < b.layers.size(); ++layer) {
    layers_b.push_back(b.record(layer).layer);
  }
  run.scales["layers_b"] = results::ScaleValues(std::move(layers_b));
  run.optional_columns = results::optional_names(kCkaCells, kCkaArrays);
  std::int64_t movable = 0;
  for (const std::vector<std::int64_t>& members : rows.strata) {
    movable += static_cast<std::int64_t>(members.size());
  }
  run.attributes = {
      {"role", settings.role},
      {"pool", std::string(pooling_name(rows.pooling))},
      {"rows", rows.count},
      {"prompts", rows.by_prompt ? static_cast<std::int64_t>(rows.groups.size()) : std::int64_t{0}},
      {"permutations", shape.permutations},
      {"permutation_unit", unit},
      {"permutation_strata", static_cast<std::int64_t>(rows.strata.size())},
      {"permutation_movable", movable},
      {"interval", std::string(shape.groups > 0 ? "delete-one-prompt jackknife" : "none")}};
}

/// Why numbers that were asked for are NaN in every row.
std::vector<std::string> missing_numbers(const CkaSettings& settings, const ComparedRows& rows) {
  std::vector<std::string> reasons;
  if (settings.permutations > 0) {
    reasons.push_back(few_orders(rows));
  }
  if (settings.interval) {
    reasons.push_back(no_interval(rows));
  }
  std::erase(reasons, "");
  return reasons;
}

/// What the user should know of the orders that permutations draw from; empty where all is well.
std::string note_of_orders(const ComparedRows& rows, const CkaShape& shape) {
  if (shape.permutations == 0) {
    return "";
  }
  std::size_t movable = 0;
  for (const std::vector<std::int64_t>& members : rows.strata) {
    movable += members.size();
  }
  if (2 * movable < rows.groups.size()) {
    return fmt::format(
        "note: only {} of {} prompts share a length with others; the rest stays in place in every "
        "permutation, so that null_mean and null_q95 lie nearer to cka than without a relation "
        "(p holds; prompts cut to a few lengths would move)",
        movable, rows.groups.size());
  }
  const double orders = std::exp(statistics::log_orders(rows.strata));
  return orders < 1000.0
             ? fmt::format("note: the rows have {:.0f} orders: p is at least about {:.2g}", orders,
                           1.0 / orders)
             : "";
}

}  // namespace

engine::RunOutcome compare_activations(const CkaSettings& settings, const engine::RunHooks& hooks) {
  engine::JobFrame frame(settings.run);
  const engine::Pooling pooling = parse_pooling(settings.pool);
  CkaSide a = open_dump_side(settings.dump_a, settings.role, settings.layers_a, hooks.stop);
  CkaSide b = open_dump_side(settings.dump_b, settings.role, settings.layers_b, hooks.stop);
  ComparedRows rows = compared_rows(a.dump, b.dump, pooling, settings.dump_a == settings.dump_b);
  const CkaShape shape = cka_shape(settings, a, b, rows);
  std::string note;
  std::vector<std::unique_ptr<Backend>> backends = engine::open_backends(settings.run, note);
  const std::int32_t threads = settings.run.threads > 0 ? settings.run.threads : usable_cores();
  const CkaPlan plan = plan_of(settings, shape, threads, backends);
  frame.open_reader({});  // tiles read by themselves
  describe_cka(settings, a, b, rows, shape, plan, backends, frame);
  frame.say_warnings(a.dump.files, a.dump.index, "A: ");
  frame.say_warnings(b.dump.files, b.dump.index, "B: ");
  std::vector<std::string> reasons = missing_numbers(settings, rows);
  for (const std::string& reason : reasons) {
    frame.say("note: " + reason);
  }
  frame.say(note_of_orders(rows, shape));
  frame.say(note);
  frame.say(plan_text(shape, plan));
  return engine::run_job(
      std::make_unique<CkaJob>(std::move(a), std::move(b), std::move(rows), shape, plan,
                               std::move(reasons), std::move(backends), threads),
      frame.take_run(), hooks);
}

}  // namespace vindex::commands
