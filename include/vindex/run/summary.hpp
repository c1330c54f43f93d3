// Owns the table a person sees after a run.
#pragma once

#include <vindex/measure/layer_statistics.hpp>
#include <vindex/run/measure_run.hpp>

#include <span>
#include <string>

namespace vindex::run {

/// One line per (layer, block, role): count, median [q25, q75] of var@64, its null and their ratio.
/// `groups` carry model::Block numbers in `block`. Where a model has more groups than `most_lines`,
/// those of routed experts, routers and dense MLPs are shown and a last line tells how many are
/// not.
std::string layer_table(std::span<const measure::LayerGroup> groups, std::size_t most_lines);

/// What failed and why, what was escalated, how long it took.
std::string outcome_text(const RunOutcome& outcome);

}  // namespace vindex::run
