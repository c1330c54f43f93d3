// Owns the samples of 1-D tensors and the scales of blocks, which are taken before a run and are
// part of its description.
#pragma once

#include "core/json/json_document.hpp"
#include "engine/run/opening.hpp"
#include "results/runs/run_store.hpp"

#include <functional>
#include <string>
#include <string_view>

namespace vindex::commands {

/// Completes `description` with the classes of all tensors and the angles of those of one side;
/// `with_signs`: with the statistics of flipped signs. A tensor that cannot be read or decoded says
/// why. Memory: one sample and a slab. Errors: SystemError E-INPUT-CHANGED.
void add_samples(const std::function<std::string(std::string_view name)>& class_of, bool with_signs,
                 const engine::SelectedModel& model, results::RunDescription& description);
/// How samples are made, for /run/settings.
Json sample_json();

/// After add_samples(): the scales of the selected matrices in blocks of float8, gathered by their
/// tensors. Errors: likewise.
void add_block_scales(const engine::SelectedModel& model, results::RunDescription& description);

}  // namespace vindex::commands
