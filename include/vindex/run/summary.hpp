// Owns what a person is told after a run, below the table.
#pragma once

#include <vindex/run/measure_run.hpp>

#include <string>

namespace vindex::run {

/// What failed and why, what was escalated, how long it took.
std::string outcome_text(const RunOutcome& outcome);

}  // namespace vindex::run
