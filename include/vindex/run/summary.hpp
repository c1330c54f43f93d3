// Owns what a person is told after a run, below the table.
#pragma once

#include <vindex/core/text_table.hpp>
#include <vindex/run/measure_run.hpp>

#include <string>

namespace vindex::run {

/// What failed and why, what was measured twice, how long it took, in lines of at most `columns`
/// columns but for names and reasons.
std::string outcome_text(const RunOutcome& outcome, std::size_t columns = kUsualWidth);

}  // namespace vindex::run
