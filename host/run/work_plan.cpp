#include <vindex/run/work_plan.hpp>

#include <algorithm>
#include <cmath>

namespace vindex::run {

namespace {

bool same_kind(const model::MatrixRecord& a, const model::MatrixRecord& b) {
  return a.rows == b.rows && a.cols == b.cols && a.transposed == b.transposed &&
         a.encoding.label == b.encoding.label;
}

/// What one matrix takes by each way of holding its bytes.
struct MatrixMemory {
  std::uint64_t encoded = 0;
  std::uint64_t whole = 0;     ///< bytes held, free workspace
  std::uint64_t tight = 0;     ///< bytes held, least workspace
  std::uint64_t streamed = 0;  ///< bytes read in slabs, least workspace
  std::uint64_t least_workspace = 0;
  std::uint64_t least() const { return std::min(tight, streamed); }
};

}  // namespace

std::uint64_t encoded_bytes(const model::MatrixRecord& matrix) {
  std::uint64_t bytes = matrix.codes.bytes;
  for (const model::CompanionPart& companion : matrix.companions) {
    bytes += companion.part.bytes;
  }
  return bytes;
}

double measuring_cost(std::int64_t rows, std::int64_t cols, measure::Mode mode) {
  const auto p = static_cast<double>(std::min(rows, cols));
  const auto n = static_cast<double>(std::max(rows, cols));
  const double gram = n * p * (p + 1);
  const double reduction = 4.0 / 3.0 * p * p * p;
  // float64 halves the rate; a near-square matrix in strict goes through QR and bidiagonalisation
  // (about 4x the Gram).
  const double strict_factor = mode == measure::Mode::kStrict ? (n < 1.1 * p ? 8.0 : 2.2) : 1.0;
  const double reduction_weight =
      3.0;  // half of it is memory-bound: measured about a third of the Gram's rate
  return strict_factor * (gram + reduction_weight * reduction);
}

WorkPlan plan_work(const model::ModelIndex& index, const std::vector<std::int64_t>& selected,
                   const measure::MeasureOptions& options, const PlanLimits& limits,
                   WorkspaceModel workspace, const void* context, bool store_spectra) {
  WorkPlan plan;
  const auto memory_of = [&](const model::MatrixRecord& matrix) {
    MatrixMemory memory;
    memory.encoded = encoded_bytes(matrix);
    const auto need = [&](bool least) {
      return workspace(context, matrix.encoding, matrix.stored_rows(), matrix.stored_cols(), least);
    };
    memory.least_workspace = need(true);
    memory.whole = memory.encoded + need(false);
    memory.tight = memory.encoded + memory.least_workspace;
    // A slab in flight is encoded beside its decoded tile; no encoding takes more than twice the
    // bytes of float32.
    const std::uint64_t companions = memory.encoded - matrix.codes.bytes;
    memory.streamed = 2 * memory.least_workspace + companions;
    return memory;
  };

  for (const std::int64_t i : selected) {
    const model::MatrixRecord& matrix = index.matrices[static_cast<std::size_t>(i)];
    if (!matrix.unsupported.empty()) {
      continue;
    }
    const MatrixMemory memory = memory_of(matrix);
    if (memory.least() > plan.least_ram_bytes) {
      plan.least_ram_bytes = memory.least();
      plan.largest = matrix.tensor;
    }
    plan.ram_bytes = std::max(plan.ram_bytes, memory.whole);
    plan.read_bytes += memory.encoded;
    ++plan.matrices;
    const auto p = static_cast<std::uint64_t>(std::min(matrix.rows, matrix.cols));
    plan.output_bytes += (store_spectra ? 8 * p : 0) + 700;
    plan.cost += measuring_cost(matrix.rows, matrix.cols, options.mode);
  }
  plan.output_bytes += 1U << 20U;
  plan.ram_bytes *= static_cast<std::uint64_t>(limits.workers) + 1;
  if (plan.least_ram_bytes > limits.ram_budget) {
    return plan;
  }

  // A hand-over may use its fair share of the budget; one that needs more runs alone, or streamed.
  const std::uint64_t share = limits.ram_budget / (static_cast<std::uint64_t>(limits.workers) + 1);
  for (std::size_t k = 0; k < selected.size(); ++k) {
    const model::MatrixRecord& matrix = index.matrices[static_cast<std::size_t>(selected[k])];
    if (!matrix.unsupported.empty()) {
      continue;
    }
    const MatrixMemory memory = memory_of(matrix);
    if (!plan.units.empty()) {
      WorkUnit& last = plan.units.back();
      const model::MatrixRecord& first =
          index.matrices[static_cast<std::size_t>(last.matrices.front())];
      const bool room = static_cast<std::int64_t>(last.matrices.size()) < limits.batch &&
                        !last.streamed && last.workspace_limit == 0 &&
                        last.memory_bytes + memory.encoded <= share;
      if (room && same_kind(first, matrix)) {
        last.matrices.push_back(selected[k]);
        last.encoded_bytes += memory.encoded;
        last.memory_bytes += memory.encoded;
        last.cost += measuring_cost(matrix.rows, matrix.cols, options.mode);
        continue;
      }
    }
    WorkUnit unit;
    unit.matrices = {selected[k]};
    unit.encoded_bytes = memory.encoded;
    unit.cost = measuring_cost(matrix.rows, matrix.cols, options.mode);
    if (memory.whole <= limits.ram_budget) {
      unit.memory_bytes = memory.whole;
    } else if (memory.tight <= limits.ram_budget) {
      unit.memory_bytes = std::max(memory.tight, std::min(share, memory.whole));
      unit.workspace_limit = unit.memory_bytes - memory.encoded;
    } else {
      unit.streamed = true;
      unit.memory_bytes = memory.streamed;
      unit.workspace_limit = memory.least_workspace;
    }
    plan.units.push_back(std::move(unit));
  }

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
