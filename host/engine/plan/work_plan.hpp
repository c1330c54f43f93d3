// Owns the plan of a run: which rows, and matrices of which opened models, are worked on together,
// in which order, how much memory each hand-over takes and whether its bytes are held whole or
// streamed. A pure function of what rows need and of limits; it knows no job.
#pragma once

#include "backend/backend.hpp"
#include "input/model_files.hpp"
#include "model/model_index.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace vindex::engine {

/// A matrix of one of the models that a job reads.
struct MatrixRef {
  std::int32_t model = 0;   ///< which of the models
  std::int64_t matrix = 0;  ///< index into its ModelIndex::matrices
  bool operator==(const MatrixRef&) const = default;
};

/// An opened model, owned by someone else.
struct ModelView {
  const input::ModelFiles* files = nullptr;
  const model::ModelIndex* index = nullptr;
};
using ModelViews = std::vector<ModelView>;

inline const model::MatrixRecord& record_of(const ModelViews& models, const MatrixRef& ref) {
  return models[static_cast<std::size_t>(ref.model)]
      .index->matrices[static_cast<std::size_t>(ref.matrix)];
}
inline const input::ModelFiles& files_of(const ModelViews& models, const MatrixRef& ref) {
  return *models[static_cast<std::size_t>(ref.model)].files;
}

/// How the bytes of a row's matrices come to its work.
enum class Reading : std::uint8_t {
  kWhole,   ///< into slots of staging memory; slab by slab where memory is short
  kPieces,  ///< as the work asks for them: slabs, or ranges of many matrices side by side
  /// A few rows at a time, from the first to the last, read ahead
  /// (engine/units/read_ahead_window.hpp); as kWhole where the budget has no room for that.
  kPassing,
};

/// What one row of a job needs.
struct RowWork {
  std::int64_t row = 0;
  std::vector<MatrixRef> matrices = {};  ///< needed at the same time, in the order of their use
  std::string name = {};                 ///< of the tensor, for messages
  double cost = 0.0;                     ///< arithmetic, in flop; only ratios matter
  std::uint64_t read_bytes = 0;          ///< codes and companions, all of them
  std::uint64_t result_bytes = 0;        ///< of the finished row in memory, beside its fixed size
  std::uint64_t output_bytes = 0;        ///< of it in the results file, about

  /// Neighbours of equal `kind` may be handed over together; 0: alone. Their memory is the same.
  std::uint64_t kind = 0;
  Reading reading = Reading::kWhole;
  /// Of kPieces and kPassing: memory of what is read beside `workspace`. A unit of several rows
  /// takes that of its largest.
  std::uint64_t pieces = 0;
  std::uint64_t slot = 0;  ///< of its largest matrix as placed in staging memory
  /// Where its matrices are of different sizes and all held until its end: the sum of what each
  /// takes in staging memory, one behind the other; 0: slots of equal size. A unit of its own.
  std::uint64_t packed = 0;
  std::uint64_t shared = 0;              ///< of these, what a batch holds beside its slots
  std::uint64_t workspace = 0;           ///< beside encoded bytes that are held
  std::uint64_t min_workspace = 0;       ///< the same by the route with the smallest tiles
  std::uint64_t streamed_workspace = 0;  ///< the least, slabs among it
  std::uint64_t streamed = 0;            ///< all there is to it where bytes are read slab by slab
  /// Of an input beside its encoded bytes: while slabs are asked for, and as long as it lives.
  std::uint64_t input_working = 0, input_lasting = 0;
};

/// One hand-over to a worker.
struct WorkUnit {
  std::vector<std::int64_t> rows;     ///< of the job
  std::vector<MatrixRef> matrices;    ///< of these rows, one row's after the other's
  std::uint64_t encoded_bytes = 0;    ///< codes and companions, all of them
  std::uint64_t memory_bytes = 0;     ///< to be acquired from the budget: staging and workspace
  std::uint64_t workspace_limit = 0;  ///< passed to Backend::measure; 0: free
  bool streamed = false;              ///< codes are read slab by slab during the work
  bool passing = false;               ///< and, streamed, ahead of it: Reading::kPassing
  std::uint64_t slots = 0;            ///< matrices in staging memory at a time; 0 where streamed
  std::uint64_t slot_bytes = 0;       ///< of the largest matrix as placed for direct reads
  bool packed = false;                ///< a slot for each matrix, of its own size (RowWork::packed)
  bool ring = false;                  ///< a batch that gives slots back during the work
  std::uint64_t shared_bytes = 0;     ///< of the small companions, read in one pass
  std::uint64_t staging_bytes = 0;    ///< all of that
  double cost = 0.0;                  ///< arithmetic, in flop; only ratios matter
};

struct WorkPlan {
  /// In the order of working: dearest outliers first, then the job's order.
  std::vector<WorkUnit> units;
  std::int64_t matrices = 0;  ///< rows
  std::uint64_t read_bytes = 0;
  std::uint64_t least_ram_bytes = 0;  ///< the smallest budget that is accepted
  std::uint64_t ram_bytes = 0;        ///< what keeps every worker busy
  std::uint64_t ring_bytes = 0;       ///< staging memory of units in work and read ahead, at most
  std::uint64_t output_bytes = 0;     ///< estimate of the results file
  double cost = 0.0;
  std::string largest;  ///< tensor that decides least_ram_bytes
};

struct PlanLimits {
  std::uint64_t ram_budget = 0;  ///< bytes
  std::int32_t workers = 1;      ///< concurrent hand-overs
  std::int64_t batch = 1;        ///< rows per hand-over at most
  std::int64_t held = 1;         ///< BackendLimits::held_inputs
  bool in_order = false;         ///< no outlier is worked on before its turn
};

/// Parts of a matrix this close in their file are read as one.
inline constexpr std::uint64_t kMergedGap = 16U << 10U;
/// Companions up to this size are read for a whole batch at once.
inline constexpr std::uint64_t kSharedCompanionBytes = 64U << 10U;
/// Staging memory beyond which more slots of one unit gain nothing: the depth of the reader.
/// Pinning it is a part of every start.
inline constexpr std::uint64_t kRingBytes = 256ULL << 20U;

/// True where `companion` of a matrix of `unit` lies in its shared memory rather than in the slot.
bool shares_memory(const WorkUnit& unit, const model::CompanionPart& companion);

/// Units that wait ready beyond those in work: one for every worker, so that none waits for the
/// storage while another unit is solved, and this many more. Of batches with a ring, which take
/// long and read while they are in work, this many alone.
inline constexpr std::int32_t kMoreAhead = 2;

/// What the bytes of one matrix take in staging memory.
struct StagedBytes {
  std::uint64_t slot = 0;    ///< as placed with all companions
  std::uint64_t shared = 0;  ///< of these, small companions
};
StagedBytes staged_bytes(const model::MatrixRecord& matrix);

/// Bytes of codes and companions of one stored matrix.
std::uint64_t stored_bytes(const model::MatrixRecord& matrix);

/// Plans `rows`, which are in the job's order. Never throws for a budget that is too small: compare
/// limits.ram_budget with least_ram_bytes (units are then empty).
WorkPlan plan_rows(const std::vector<RowWork>& rows, const PlanLimits& limits);

/// Arithmetic of one matrix in flop: Gram over the long side and reduction of the short one, again
/// for every draw of the sign-flip null.
double measuring_cost(std::int64_t rows, std::int64_t cols, const MeasureOptions& options);

}  // namespace vindex::engine
