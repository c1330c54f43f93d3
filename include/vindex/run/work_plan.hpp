// Owns the plan of a run: which matrices are handed over together, in which order, how much memory
// each hand-over takes and whether its bytes are held whole or streamed. A pure function of shapes
// and limits.
#pragma once

#include <vindex/measure/backend.hpp>
#include <vindex/model/model_index.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace vindex::run {

/// One hand-over to a back end.
struct WorkUnit {
  std::vector<std::int64_t>
      matrices;  ///< indices into ModelIndex::matrices; one table, shape and encoding
  std::uint64_t encoded_bytes = 0;    ///< codes and companions, all of them
  std::uint64_t memory_bytes = 0;     ///< to be acquired from the budget: staging and workspace
  std::uint64_t workspace_limit = 0;  ///< passed to Backend::measure; 0: free
  bool streamed = false;              ///< codes are read slab by slab during the measurement
  std::uint64_t slots = 0;            ///< matrices in staging memory at a time; 0 where streamed
  std::uint64_t slot_bytes = 0;       ///< of the largest matrix as placed for direct reads
  std::uint64_t shared_bytes = 0;     ///< of the small companions, read in one pass
  std::uint64_t staging_bytes = 0;    ///< all of that
  double cost = 0.0;                  ///< arithmetic, in flop; only ratios matter
};

struct WorkPlan {
  std::vector<WorkUnit>
      units;  ///< in the order of working: dearest outliers first, then the model's order
  std::int64_t matrices = 0;
  std::uint64_t read_bytes = 0;
  std::uint64_t least_ram_bytes = 0;  ///< the smallest budget that plan_work() accepts
  std::uint64_t ram_bytes = 0;        ///< what keeps every worker busy
  std::uint64_t ring_bytes = 0;       ///< staging memory of units in work and read ahead, at most
  std::uint64_t output_bytes = 0;     ///< estimate of the results file
  double cost = 0.0;
  std::string largest;  ///< tensor that decides least_ram_bytes
};

struct PlanLimits {
  std::uint64_t ram_budget = 0;  ///< bytes
  std::int32_t workers = 1;      ///< concurrent hand-overs
  std::int64_t batch = 1;        ///< matrices per hand-over at most
  std::int64_t held = 1;         ///< BackendLimits::held_inputs
};

/// Parts of a matrix this close in their file are read as one.
inline constexpr std::uint64_t kMergedGap = 16U << 10U;
/// Companions up to this size are read for a whole batch at once.
inline constexpr std::uint64_t kSharedCompanionBytes = 64U << 10U;
/// Staging memory beyond which more slots of one unit gain nothing: the depth of the reader.
inline constexpr std::uint64_t kRingBytes = 512ULL << 20U;

/// True where `companion` of a matrix of `unit` lies in its shared memory rather than in the slot.
bool shares_memory(const WorkUnit& unit, const model::CompanionPart& companion);

/// Units that wait ready beyond those in work: one for every worker, so that none waits for the
/// storage while another unit is solved, and this many more.
inline constexpr std::int32_t kMoreAhead = 2;

/// What the plan asks of a back end: its workspace, without needing one in tests.
using WorkspaceModel = std::uint64_t (*)(const void* context, const model::MatrixRecord& matrix,
                                         bool least);

/// Plans the measurement of `selected` (indices into index.matrices, in row order; unsupported ones
/// are left out). Never throws for a budget that is too small: compare limits.ram_budget with
/// least_ram_bytes (units are then empty).
WorkPlan plan_work(const model::ModelIndex& index, const std::vector<std::int64_t>& selected,
                   const measure::MeasureOptions& options, const PlanLimits& limits,
                   WorkspaceModel workspace, const void* context, bool store_spectra);

/// Bytes of codes and companions of one matrix; of a product, those of its windows.
std::uint64_t encoded_bytes(const model::MatrixRecord& matrix);

/// Arithmetic of one matrix in flop: Gram over the long side and reduction of the short one, again
/// for every draw of the sign-flip null.
double measuring_cost(std::int64_t rows, std::int64_t cols, const measure::MeasureOptions& options);

/// The same of a row of any table.
double row_cost(const model::MatrixRecord& matrix, const measure::MeasureOptions& options);

}  // namespace vindex::run
