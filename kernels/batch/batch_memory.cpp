// Owns the bytes of every phase of a batch, the arrays that each takes from the arena, and the
// largest batch that fits.
#include "batch_memory.hpp"

#include "core/integers.hpp"
#include "kernels/decode/decode_wide.hpp"
#include "kernels/gram/codes/code_slices.hpp"
#include "kernels/gram/codes/sliced_gram.hpp"
#include "kernels/tail/tail_solver.hpp"
#include "kernels/top/top_solvers.hpp"
#include <vindex/error.hpp>

#include <algorithm>

namespace vindex::kernels {

namespace {

/// Weights decoded to float64 at a time: 128 MiB and 256 MiB as float32 and float64.
constexpr std::int64_t kChunkWeights = 32LL << 20U;
/// Rows a chunk has at least, in multiples of the short side, where there are so many: a QR by row
/// blocks pays for the triangle on top of each.
constexpr std::int64_t kChunkSides = 2;

std::uint64_t wide_phase_bytes(const BatchTask& task, std::int64_t wide) {
  std::size_t most = 0;
  for (const SpectrumRoute& route : {task.routes.first, task.routes.strict}) {
    if (!route.is_float32()) {
      Arena count(nullptr, 0);
      // Of kQr for what a Gram tells.
      const Float64Phase phase(task, route, wide, count);
      most = std::max(most, count.used());
    }
  }
  if (task.wants_top()) {
    Arena count(nullptr, 0);
    const TopPhase phase(task, wide, count);
    most = std::max(most, count.used());
  }
  if (task.vector_columns > 0) {
    Arena count(nullptr, 0);
    const Float64Phase phase(
        task, {.gram = GramChoice::kLibrary64, .solver = SolverChoice::kLibrary}, wide, count);
    most = std::max(most, count.used());
  }
  Arena count(nullptr, 0);
  const QrPhase phase(task, count);
  return std::max(most, count.used());
}

/// What the solvers for the ends of a spectrum keep beside the arena.
std::uint64_t end_bytes(const BatchTask& task, std::int64_t wide) {
  const std::int64_t slab = task.slab_length();
  std::uint64_t bytes = 0;
  if (task.iterates()) {
    bytes += fast_solver_bytes(task.p(), task.n(), wide, slab, task.projected_at_once(wide)) +
             proof_bytes(task, wide);
  }
  if (task.max_tail_values() > 0) {
    bytes += TailSolver::device_bytes(task.p(), task.n(), slab, task.device.multiprocessors);
  }
  if (task.vector_columns > 0) {
    bytes += vector_solver_bytes(task.p(), task.n(), wide, task.vector_columns);
  }
  return bytes;
}

std::uint64_t float32_phase_bytes(const BatchTask& task, std::int64_t batch) {
  if (!task.routes.first.is_float32()) {
    return 0;
  }
  Arena count(nullptr, 0);
  const Float32Phase phase(task, task.eigen_piece(batch), count);
  if (task.max_tail_values() > 0) {
    const WeightPhase weights(task, count);
  }
  return count.used();
}

/// What cuSOLVER takes beside its matrices, by observation of its kind: a matrix or two each.
std::uint64_t library_allowance(const BatchTask& task, std::int64_t wide) {
  const auto p = static_cast<std::uint64_t>(task.p());
  const bool is_library = task.routes.first.solver == SolverChoice::kLibrary ||
                          task.routes.strict.solver == SolverChoice::kLibrary;
  return sizeof(double) * p * p * (is_library ? static_cast<std::uint64_t>(wide) + 2 : 2);
}

}  // namespace

std::int64_t BatchTask::chunk_rows() const {
  const std::int64_t by_weights = kChunkWeights / std::max<std::int64_t>(cols, 1);
  const std::int64_t unit = 128;  // of every block of rows that shares a scale
  const std::int64_t wanted =
      std::max({unit, by_weights / unit * unit, row_chunks() ? kChunkSides * cols : unit});
  return std::min(rows, ceil_divide(wanted, unit) * unit);
}

std::int64_t BatchTask::chunk_count() const { return ceil_divide(rows, chunk_rows()); }

std::int64_t BatchTask::slab_length() const { return row_chunks() ? chunk_rows() : cols; }

std::int64_t BatchTask::eigen_piece(std::int64_t count) const {
  return device.multiprocessors > 0 ? std::min<std::int64_t>(count, device.multiprocessors) : count;
}

std::int64_t BatchTask::grams_together() const {
  // A product of one such matrix has fewer tiles than a device has multiprocessors; of 1024 x 1024
  // weights 16 in float64 take 128 MiB.
  constexpr std::int64_t kMaxBytes = 128LL << 20U;
  constexpr std::int64_t kWorthwhile = 8;
  if (routes.sliced_gram || chunk_count() > 1) {
    return 1;
  }
  const std::int64_t bytes =
      std::max<std::int64_t>(1, rows * cols) * static_cast<std::int64_t>(sizeof(double));
  const std::int64_t fitting = std::min(kMaxBytes / bytes, kDecodedTogether);
  return fitting >= kWorthwhile ? fitting : 1;
}

std::int64_t BatchTask::projected_at_once(std::int64_t count) const {
  constexpr std::int64_t kMax = 16;
  constexpr std::int64_t kMaxBytes = 2LL << 30U;
  if (!iterates() || (row_chunks() && chunk_count() > 1)) {
    return 1;  // what passes in pieces has large ones
  }
  const std::int64_t bytes = rows * cols * static_cast<std::int64_t>(sizeof(double));
  return std::max<std::int64_t>(1, std::min({kMaxBytes / bytes, count, kMax}));
}

std::int64_t BatchTask::slice_bytes(std::int64_t count) const {
  const std::size_t of_weights = routes.sliced_gram ? sliced_gram_bytes(p(), slab_length()) : 0;
  const std::int64_t at_once = codes_at_once(count);
  const std::size_t of_codes = at_once > 0 ? code_gram_bytes(gram_shape(), at_once) : 0;
  return static_cast<std::int64_t>(std::max(of_weights, of_codes));
}

std::int64_t BatchTask::codes_at_once(std::int64_t count) const {
  const bool is_wanted = routes.newer.code_slices && operands.kind == OperandKind::kBlockScaled &&
                         rows > 0 && cols > 0;
  return is_wanted ? code_grams_at_once(gram_shape(), count) : 0;
}

bool BatchTask::iterates() const { return is_fast && routes.has_top && !routes.first.is_float32(); }

bool BatchTask::wants_top() const { return iterates() || (routes.has_top && vector_columns > 0); }

std::int64_t BatchTask::max_tail_values() const {
  const bool is_kept = routes.first.is_float32() || routes.strict.solver == SolverChoice::kTwoStage;
  return is_kept && !is_fast && routes.keeps_factor ? kernels::max_tail_values(p()) : 0;
}

StagePrecision BatchTask::stages() const {
  return choose_stages({.rows = rows,
                        .cols = cols,
                        .is_float32 = routes.first.is_float32(),
                        .is_fast = is_fast,
                        .newer = routes.newer,
                        .device = device});
}

int BatchTask::stored_chase_sweeps() const {
  if (routes.newer.shared_chase) {
    // Of every batch, and of a device of any number of multiprocessors.
    return chase_plan(p(), 1, sizeof(float), sizeof(double), {.shared_bytes = device.shared_bytes})
        .shape.sweeps;
  }
  return chase_shape(device.shared_bytes, sizeof(double)).sweeps;
}

std::uint64_t proof_bytes(const BatchTask& task, std::int64_t wide) {
  // Enough for a Cholesky step to fill a device; of p = 2048, 2.4 GB.
  constexpr std::int64_t kProofsAtOnce = 64;
  const std::int64_t elements = task.p() * (task.p() + statistics::kProvedVectors);
  return sizeof(double) * static_cast<std::uint64_t>(std::min(wide, kProofsAtOnce) * elements);
}

BatchResults::BatchResults(const BatchTask& task, std::int64_t batch, Arena& memory)
    : values(memory.take<double>(batch * task.p())),
      failed(memory.take<int>(batch)),
      exponents(memory.take<std::int32_t>(batch)),
      gram_facts(memory.take<GramFacts>(batch)),
      diagonal_facts(memory.take<DiagonalFacts>(batch)),
      additive(memory.take<double>(batch * kAdditiveParts)),
      symmetric_facts(memory.take<SymmetricFacts>(batch)),
      moments(memory.take<RawMoments>(batch * task.chunk_count())),
      passes(memory.take<double>(batch)) {}

WeightPhase::WeightPhase(const BatchTask& task, Arena& memory)
    : decoded(memory.take<float>(task.chunk_rows() * task.cols)),
      wide(memory.take<double>((task.row_chunks() ? task.chunk_rows() : task.rows) * task.cols)) {}

Float32Phase::Float32Phase(const BatchTask& task, std::int64_t batch, Arena& memory)
    : grams(memory.take<float>(batch * task.gram_shape().gram_elements())),
      gram_workspace(nullptr),
      gram_workspace_bytes(kernels::gram_workspace_bytes(task.gram_shape(), task.operands, batch)),
      plan(plan_two_stage(task.p(), batch, true, task.routes.first.band, task.max_tail_values() > 0,
                          task.stages(), task.device, task.routes.newer)),
      solver(plan, memory) {
  gram_workspace = memory.take<unsigned char>(static_cast<std::int64_t>(gram_workspace_bytes));
}

WeightPhase::WeightPhase(const Float64Phase& phase) : decoded(phase.decoded), wide(phase.wide) {}

Float64Phase::Float64Phase(const BatchTask& task, const SpectrumRoute& route, std::int64_t count,
                           Arena& memory)
    : together(task.grams_together()),
      decoded(memory.take<float>(task.chunk_rows() * task.cols)),
      wide(memory.take<double>(together * (task.row_chunks() ? task.chunk_rows() : task.rows) *
                               task.cols)),
      sum_parts(memory.take<RawMoments>(
          together > 1 ? together * wide_sum_parts(task.rows, task.cols) : 0)),
      scratch(nullptr),
      scratch_bytes(moments_scratch_bytes(task.chunk_rows() * task.cols)),
      slices(memory.take<unsigned char>(task.slice_bytes(count))),
      leading(route.solver == SolverChoice::kTwoStage ? band_order(task.p()) : task.p()),
      grams(memory.take<double>(ceil_divide(count, together) * together * leading * leading)),
      symmetric_workspace(memory.take<unsigned char>(
          static_cast<std::int64_t>(complete_symmetric_bytes(task.p(), count)))) {
  scratch = memory.take<unsigned char>(static_cast<std::int64_t>(scratch_bytes));
  if (route.solver == SolverChoice::kTwoStage) {
    plan = plan_two_stage(task.p(), count, false, route.band, task.max_tail_values() > 0, {},
                          task.device, task.routes.newer);
    solver = TwoStageArrays(plan, memory);
  }
}

TopPhase::TopPhase(const BatchTask& task, std::int64_t count, Arena& memory)
    : wide(task, {.gram = GramChoice::kLibrary64, .solver = SolverChoice::kLibrary},
           task.routes.top.is_float32() ? 0 : count, memory),
      leading(task.routes.top.is_float32() ? task.gram_shape().order() : task.p()),
      grams(memory.take<float>(count * leading * leading)),
      scales(memory.take<double>(count)),
      gram_workspace(nullptr),
      gram_workspace_bytes(
          task.routes.top.is_float32()
              ? kernels::gram_workspace_bytes(task.gram_shape(), task.operands, count)
              : 0),
      at_once(task.projected_at_once(count)),
      weights(wide.wide) {
  gram_workspace = memory.take<unsigned char>(static_cast<std::int64_t>(gram_workspace_bytes));
  if (at_once > 1) {
    weights = memory.take<double>(at_once * task.rows * task.cols);
  }
}

QrPhase::QrPhase(const BatchTask& task, Arena& memory)
    : decoded(memory.take<float>(task.chunk_rows() * task.cols)),
      wide(memory.take<double>((task.row_chunks() ? task.chunk_rows() : task.rows) * task.cols)) {
  const std::int64_t p = task.p();
  factor.stack = memory.take<double>(
      stack_elements(p, task.row_chunks() ? std::min(task.chunk_rows(), task.rows) : task.cols));
  factor.r = memory.take<double>(p * p);
  factor.tau = memory.take<double>(p);
  factor.info = memory.take<int>(1);
  values = memory.take<double>(p);
}

std::uint64_t arena_bytes(const BatchTask& task, const BatchSizes& sizes) {
  return std::max(float32_phase_bytes(task, sizes.batch), wide_phase_bytes(task, sizes.wide));
}

std::uint64_t result_bytes(const BatchTask& task, std::int64_t batch) {
  Arena count(nullptr, 0);
  const BatchResults results(task, batch, count);
  return count.used();
}

DeviceDemand device_demand(const BatchTask& task, const BatchSizes& sizes) {
  return {.encoded = task.slot.total_bytes * static_cast<std::uint64_t>(sizes.batch),
          .results = result_bytes(task, sizes.batch),
          .arena = arena_bytes(task, sizes),
          .library = library_allowance(task, sizes.wide),
          .ends = end_bytes(task, sizes.wide)};
}

std::uint64_t device_bytes(const BatchTask& task, const BatchSizes& sizes) {
  return device_demand(task, sizes).total();
}

bool LaneAccount::admit(const DeviceDemand& demand, std::uint64_t budget) {
  const auto takes_same = [&](const DeviceDemand& one) {
    return one.library == demand.library && one.ends == demand.ends;
  };
  const bool is_known = std::any_of(seen_.begin(), seen_.end(), takes_same);
  DeviceDemand after = kept_;
  after.encoded = std::max(after.encoded, demand.encoded);
  after.results = std::max(after.results, demand.results);
  after.arena = std::max(after.arena, demand.arena);
  after.library = std::max(after.library, demand.library);
  after.ends += is_known ? 0 : demand.ends;
  if (!seen_.empty() && after.total() > budget) {
    *this = {};
    return false;
  }
  kept_ = after;
  if (!is_known) {
    seen_.push_back(demand);
  }
  return true;
}

BatchSizes plan_batch(const BatchTask& task, std::int64_t wanted, std::uint64_t budget) {
  // Encoded weights first: the more matrices in flight, the better every stage is used. What is
  // left decides how many of them are solved in float64 at a time.
  const auto fits = [&](const BatchSizes& sizes) { return device_bytes(task, sizes) <= budget; };
  const auto most = [&](std::int64_t limit, const auto& with) {
    std::int64_t low = 0;
    std::int64_t high = limit;
    while (low < high) {
      const std::int64_t middle = low + (high - low + 1) / 2;
      if (fits(with(middle))) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    return low;
  };
  // A few float64 matrices at least, so that escalated ones are not solved one at a time.
  constexpr std::int64_t kWideAtLeast = 8;
  std::int64_t batch = most(wanted, [&](std::int64_t count) {
    return BatchSizes{.batch = count, .wide = std::min(count, kWideAtLeast)};
  });
  if (batch == 0) {
    batch = most(1, [](std::int64_t count) { return BatchSizes{.batch = count, .wide = 1}; });
  }
  if (batch == 0) {
    throw OutOfMemory("device memory for a matrix of " + std::to_string(task.rows) + " x " +
                          std::to_string(task.cols),
                      device_bytes(task, {}));
  }
  const std::int64_t wide =
      most(batch, [&](std::int64_t count) { return BatchSizes{.batch = batch, .wide = count}; });
  return {.batch = batch, .wide = std::max<std::int64_t>(wide, 1)};
}

}  // namespace vindex::kernels
