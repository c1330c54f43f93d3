// Owns what a run that takes samples says of the 1-D tensors, which have no spectrum: they
// are small, and read before the run begins.
#pragma once

#include <vindex/engine/opening.hpp>
#include <vindex/results/run_store.hpp>

namespace vindex::jobs {

/// Completes `description` with the classes of all tensors and the angles of those of one side, and
/// with how they are made. A tensor that cannot be read or decoded says why. Memory: one sample and
/// a slab. Errors: SystemError E-INPUT-CHANGED.
void add_samples(const engine::RunSettings& settings, const engine::SelectedModel& model,
                 results::RunDescription& description);

}  // namespace vindex::jobs
