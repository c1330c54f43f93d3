// Owns what is reported to a person after a run, below the table.
#pragma once

#include <vindex/core/text_table.hpp>
#include <vindex/engine/job_runner.hpp>

#include <string>

namespace vindex::engine {

/// What failed and why, what was measured twice, how long it took, in lines of at most `columns`
/// columns but for names and reasons.
std::string outcome_text(const RunOutcome& outcome, std::size_t columns = kUsualWidth,
                         const char* noun = "matrices");

/// "NAME: why" of the first row in row order that asks for an exit code, and how many more rows
/// have no measurement. Only where outcome.first_failure_reason is not empty.
std::string failure_text(const RunOutcome& outcome, const char* noun = "matrices");

}  // namespace vindex::engine
