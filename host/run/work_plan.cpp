#include <vindex/measure/spectrum_checks.hpp>
#include <vindex/model/product.hpp>
#include <vindex/run/derived_rows.hpp>
#include <vindex/run/product_rows.hpp>
#include <vindex/run/work_plan.hpp>
#include <vindex/shard/bulk_reader.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace vindex::run {

namespace {

/// Of a worker's work, one unit should be no more than the fourth part, unless so few matrices are
/// left that a device would idle between them.
constexpr double kUnitsPerWorker = 4.0;
constexpr double kLeastBatch = 16.0;

bool same_kind(const model::MatrixRecord& a, const model::MatrixRecord& b) {
  return a.table == b.table && a.rows == b.rows && a.cols == b.cols &&
         a.transposed == b.transposed && a.encoding.label == b.encoding.label;
}

/// What one matrix takes by each way of holding its bytes.
struct MatrixMemory {
  std::uint64_t slot = 0;    ///< as placed in staging memory with all companions
  std::uint64_t shared = 0;  ///< of these, what a batch would hold beside its slots
  std::uint64_t workspace = 0, least_workspace = 0;
  std::uint64_t streamed = 0;  ///< bytes read in slabs, least workspace
  InputMemory input;           ///< of a derived row, beside all that
  std::uint64_t whole() const { return slot + shard::kDirectAlignment + workspace + one_input(); }
  std::uint64_t tight() const {
    return slot + shard::kDirectAlignment + least_workspace + one_input();
  }
  std::uint64_t one_input() const { return input.working + input.lasting; }
  std::uint64_t least() const { return std::min(tight(), streamed); }
};

bool is_small(const model::CompanionPart& companion) {
  return companion.part.bytes <= kSharedCompanionBytes;
}

/// Sets slots and memory of a unit that holds `unit.matrices` of one kind, `slot` and `shared`
/// bytes each.
void size_unit(WorkUnit& unit, const MatrixMemory& memory, const PlanLimits& limits,
               std::uint64_t share) {
  const std::uint64_t count = unit.matrices.size();
  const bool batch = count > 1;
  unit.slot_bytes = batch ? memory.slot - memory.shared : memory.slot;
  unit.shared_bytes = batch ? count * memory.shared : 0;
  unit.slots = count;
  if (limits.held > 0) {
    const std::uint64_t ring = std::min(kRingBytes, share / 2);
    unit.slots = std::min(count, std::max(static_cast<std::uint64_t>(limits.held),
                                          ring / std::max<std::uint64_t>(unit.slot_bytes, 1)));
  }
  unit.staging_bytes = unit.slots * unit.slot_bytes + unit.shared_bytes + shard::kDirectAlignment;
  unit.memory_bytes = unit.staging_bytes + memory.workspace;
  const std::uint64_t held =
      limits.held > 0 ? std::min(count, static_cast<std::uint64_t>(limits.held)) : count;
  unit.memory_bytes += held * memory.input.working + count * memory.input.lasting;
  if (unit.slots < count) {
    // A matrix that is asked for again after its release.
    unit.memory_bytes += memory.slot + memory.input.working;
  }
}

/// Heads of one attention share factors that one worker reads once: they make a unit, as long as
/// every worker gets some.
void add_product(const model::ModelIndex& index, std::int64_t row, double fair_cost,
                 WorkPlan& plan) {
  const model::MatrixRecord& record = index.matrices[static_cast<std::size_t>(row)];
  const double cost = product_cost(record);
  if (!plan.units.empty()) {
    WorkUnit& last = plan.units.back();
    const model::MatrixRecord& first =
        index.matrices[static_cast<std::size_t>(last.matrices.front())];
    if (first.product != nullptr && first.tensor == record.tensor &&
        last.cost + cost <= std::max(fair_cost, kLeastBatch * cost)) {
      last.matrices.push_back(row);
      last.encoded_bytes += product_read_bytes(record);
      last.memory_bytes = std::max(last.memory_bytes, product_bytes(record));
      last.cost += cost;
      return;
    }
  }
  WorkUnit unit;
  unit.matrices = {row};
  unit.encoded_bytes = product_read_bytes(record);
  unit.memory_bytes = product_bytes(record);
  unit.streamed = true;
  unit.cost = cost;
  plan.units.push_back(std::move(unit));
}

}  // namespace

bool shares_memory(const WorkUnit& unit, const model::CompanionPart& companion) {
  return unit.shared_bytes > 0 && is_small(companion);
}

std::uint64_t encoded_bytes(const model::MatrixRecord& matrix) {
  if (matrix.product != nullptr) {
    return product_read_bytes(matrix);
  }
  std::uint64_t bytes = matrix.codes.bytes;
  for (const model::CompanionPart& companion : matrix.companions) {
    bytes += companion.part.bytes;
  }
  return bytes;
}

double measuring_cost(std::int64_t rows, std::int64_t cols,
                      const measure::MeasureOptions& options) {
  const auto p = static_cast<double>(std::min(rows, cols));
  const auto n = static_cast<double>(std::max(rows, cols));
  const double gram = n * p * (p + 1);
  const double reduction = 4.0 / 3.0 * p * p * p;
  // float64 halves the rate; a near-square matrix in strict goes through QR and bidiagonalisation
  // (about 4x the Gram).
  const bool is_strict =
      options.mode == measure::Mode::kStrict || measure::is_strict_by_shape(rows, cols, options);
  const double strict_factor = is_strict ? (n < 1.1 * p ? 8.0 : 2.2) : 1.0;
  const double reduction_weight =
      3.0;  // half of it is memory-bound: measured about a third of the Gram's rate
  // Draws take the route of the mode, whatever the shape.
  const double draw_factor = options.mode == measure::Mode::kStrict ? strict_factor : 1.0;
  return (strict_factor + options.sign_flip_draws * draw_factor) *
         (gram + reduction_weight * reduction);
}

double row_cost(const model::MatrixRecord& matrix, const measure::MeasureOptions& options) {
  return matrix.product != nullptr
             ? product_cost(matrix)
             : measuring_cost(matrix.rows, matrix.cols, options_for(matrix.table, options));
}

WorkPlan plan_work(const model::ModelIndex& index, const std::vector<std::int64_t>& selected,
                   const measure::MeasureOptions& options, const PlanLimits& limits,
                   WorkspaceModel workspace, const void* context, bool store_spectra) {
  WorkPlan plan;
  const auto memory_of = [&](const model::MatrixRecord& matrix) {
    MatrixMemory memory;
    memory.slot = shard::placed_bytes_at_most(matrix.codes.bytes, kMergedGap);
    for (const model::CompanionPart& companion : matrix.companions) {
      const std::uint64_t bytes = shard::placed_bytes_at_most(companion.part.bytes, kMergedGap);
      memory.slot += bytes;
      memory.shared += is_small(companion) ? bytes : 0;
    }
    const auto need = [&](bool least) { return workspace(context, matrix, least); };
    memory.workspace = need(false);
    memory.least_workspace = need(true);
    // A slab in flight is encoded beside its decoded tile; no encoding takes more than twice the
    // bytes of float32.
    const std::uint64_t companions = encoded_bytes(matrix) - matrix.codes.bytes;
    memory.input = input_memory(matrix);
    memory.streamed = 2 * memory.least_workspace + companions + memory.one_input();
    if (memory.input.working > 0) {
      memory.streamed += 2 * memory.input.working;  // the slab that its slab is decoded from
    }
    return memory;
  };

  for (const std::int64_t i : selected) {
    const model::MatrixRecord& matrix = index.matrices[static_cast<std::size_t>(i)];
    if (!matrix.unsupported.empty()) {
      continue;
    }
    plan.read_bytes += encoded_bytes(matrix);
    ++plan.matrices;
    plan.cost += row_cost(matrix, options);
    const auto values = static_cast<std::uint64_t>(
        matrix.product != nullptr ? matrix.product->rank() : std::min(matrix.rows, matrix.cols));
    plan.output_bytes += (store_spectra ? 8 * values : 0) + 700;
    if (matrix.product != nullptr) {
      const std::uint64_t bytes = product_bytes(matrix);
      if (bytes > plan.least_ram_bytes) {
        plan.least_ram_bytes = bytes;
        plan.largest = matrix.tensor;
      }
      plan.ram_bytes = std::max(plan.ram_bytes, bytes);
      continue;
    }
    const MatrixMemory memory = memory_of(matrix);
    if (memory.least() > plan.least_ram_bytes) {
      plan.least_ram_bytes = memory.least();
      plan.largest = matrix.tensor;
    }
    // One matrix, or as much of a batch as its ring holds.
    const std::uint64_t batch = static_cast<std::uint64_t>(limits.batch - 1) * memory.slot;
    plan.ram_bytes = std::max(
        plan.ram_bytes, memory.whole() + (limits.held > 0 ? std::min(kRingBytes, batch) : batch));
  }
  plan.output_bytes += 1U << 20U;
  plan.ram_bytes *= static_cast<std::uint64_t>(limits.workers) + 1;
  if (plan.least_ram_bytes > limits.ram_budget) {
    return plan;
  }

  // A hand-over may use its fair share of the budget; one that needs more runs alone, or streamed.
  const std::uint64_t share = limits.ram_budget / (static_cast<std::uint64_t>(limits.workers) + 1);
  // Every worker shall have several units, or the last ones to finish decide the time.
  const double fair_cost = plan.cost / (kUnitsPerWorker * static_cast<double>(limits.workers));
  MatrixMemory before;
  for (std::size_t k = 0; k < selected.size(); ++k) {
    const model::MatrixRecord& matrix = index.matrices[static_cast<std::size_t>(selected[k])];
    if (!matrix.unsupported.empty()) {
      continue;
    }
    if (matrix.product != nullptr) {
      add_product(index, selected[k], fair_cost, plan);
      continue;
    }
    const MatrixMemory memory = memory_of(matrix);
    const bool same_parts = memory.slot == before.slot && memory.shared == before.shared;
    before = memory;
    const double cost = row_cost(matrix, options);
    if (!plan.units.empty()) {
      WorkUnit& last = plan.units.back();
      const model::MatrixRecord& first =
          index.matrices[static_cast<std::size_t>(last.matrices.front())];
      const bool room = static_cast<std::int64_t>(last.matrices.size()) < limits.batch &&
                        !last.streamed && last.workspace_limit == 0 &&
                        last.cost + cost <= std::max(fair_cost, kLeastBatch * cost);
      if (room && same_parts && same_kind(first, matrix)) {
        WorkUnit larger = last;
        larger.matrices.push_back(selected[k]);
        size_unit(larger, memory, limits, share);
        if (larger.memory_bytes <= share) {
          larger.encoded_bytes += encoded_bytes(matrix);
          larger.cost += cost;
          last = std::move(larger);
          continue;
        }
      }
    }
    WorkUnit unit;
    unit.matrices = {selected[k]};
    unit.encoded_bytes = encoded_bytes(matrix);
    unit.cost = cost;
    size_unit(unit, memory, limits, share);
    if (unit.memory_bytes <= limits.ram_budget) {
      plan.units.push_back(std::move(unit));
      continue;
    }
    if (memory.tight() <= limits.ram_budget) {
      unit.memory_bytes = std::max(memory.tight(), std::min(share, memory.whole()));
      unit.workspace_limit = unit.memory_bytes - unit.staging_bytes - memory.one_input();
    } else {
      unit.streamed = true;
      unit.slots = unit.slot_bytes = unit.shared_bytes = unit.staging_bytes = 0;
      unit.memory_bytes = memory.streamed;
      unit.workspace_limit = memory.least_workspace;
    }
    plan.units.push_back(std::move(unit));
  }

  std::vector<std::uint64_t> staging;
  for (const WorkUnit& unit : plan.units) {
    staging.push_back(unit.staging_bytes);
  }
  std::sort(staging.rbegin(), staging.rend());
  staging.resize(
      std::min(staging.size(), static_cast<std::size_t>(2 * limits.workers + kMoreAhead)));
  plan.ring_bytes = std::min(limits.ram_budget,
                             std::accumulate(staging.begin(), staging.end(), std::uint64_t{0}));

  // A matrix that costs more than a worker's fair tail would otherwise run alone at the end.
  const double outlier = plan.cost / (8.0 * static_cast<double>(limits.workers));
  std::stable_sort(plan.units.begin(), plan.units.end(), [&](const WorkUnit& a, const WorkUnit& b) {
    const double cost_a = a.cost > outlier ? a.cost : 0.0;
    const double cost_b = b.cost > outlier ? b.cost : 0.0;
    return cost_a > cost_b;
  });
  return plan;
}

}  // namespace vindex::run
