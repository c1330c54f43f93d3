// Owns the measurement of one group of experts: one pass over their bytes for the Gram matrix, all
// experts' pieces side by side; with singular vectors a second pass, expert by expert.
#pragma once

#include "expert_cuts.hpp"

#include "backend/backend.hpp"
#include "engine/run/opening.hpp"
#include "engine/units/unit_stream.hpp"
#include "model/experts/expert_groups.hpp"
#include "results/rows/result_row.hpp"

#include <cstdint>
#include <stop_token>

namespace vindex::commands {

/// What is asked of every group.
struct ExpertOptions {
  std::int32_t vectors = 0;           ///< K of the overlaps; 0: none
  std::int32_t threads = 1;           ///< of one group
  std::uint64_t cut_bytes = 1 << 20;  ///< of all experts' pieces together, about
  std::int64_t experts = 1;           ///< the file's most: arrays are padded to it
};

/// Host memory that one group takes, and what its row holds of it.
struct ExpertMemory {
  std::uint64_t pieces = 0;     ///< of experts, as they are read
  std::uint64_t workspace = 0;  ///< beside them
  std::uint64_t row = 0;
};
ExpertMemory expert_memory(const model::ModelIndex& index, const model::ExpertGroup& group,
                           const ExpertOptions& options, const Backend& backend);

/// Multiplications and additions of the Gram matrix.
double expert_flops(const model::ExpertGroup& group);

/// The row of `group` of the unit's first model; its index is not set. Troubles of single experts
/// are in its reason, and the first of them decides its error class; where no expert can be read it
/// is a failed row. Errors: DeviceError, OutOfMemory; Stopped.
results::ResultRow measure_group(engine::UnitStream& unit, const model::ModelIndex& index,
                                 const model::ExpertGroup& group, const ExpertOptions& options,
                                 Backend& backend);

}  // namespace vindex::commands
