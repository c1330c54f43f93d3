// Owns trying what a run needs of files, output and disk without measuring anything.
#pragma once

#include "engine/plan/work_plan.hpp"
#include "engine/run/opening.hpp"

#include <cstdint>

namespace vindex::commands {

/// What a dry run has tried.
struct AccessProof {
  std::int64_t files = 0;          ///< that were read at both ends of what is needed of them
  std::uint64_t sample_bytes = 0;  ///< read in one piece, to see how fast they come
  double sample_seconds = 0.0;
};
/// Tries everything that a run of `plan` needs of its surroundings: reads from every file that it
/// would read, makes and removes a temporary file beside the output, and looks for the room that
/// the results take there. Nothing is left. Errors: those of reading; OutputError, SystemError
/// E-OUT-CREATE, E-OUT-SPACE.
AccessProof prove_access(const engine::RunSettings& settings, const engine::SelectedModel& model,
                         const engine::WorkPlan& plan);

/// Disk that a run takes at most: the results file beside the parts that it is made of, and
/// `copies` bytes of remote files.
std::uint64_t needed_disk(const engine::WorkPlan& plan, std::uint64_t copies);

}  // namespace vindex::commands
