// Owns how a run ended: finished rows counted, the exit code that the first failing one asks for,
// and the lines that say so to a person.
#pragma once

#include "job.hpp"

#include "core/text/text_table.hpp"
#include "input/bulk/bulk_reader.hpp"
#include "results/rows/result_row.hpp"
#include <vindex/error.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace vindex::engine {

/// How a run ended.
struct RunOutcome {
  ExitCode exit_code = ExitCode::kOk;
  std::int64_t derived_total = 0;  ///< of `total`: rows of other tables than the file's first
  std::int64_t total = 0, measured_now = 0, done_before = 0, failed = 0, unsupported = 0,
               not_finite = 0, escalated = 0;
  bool stopped = false;
  double seconds = 0.0;
  /// Of these, until the workers began, and until the last row was there.
  double begun_seconds = 0.0, last_row_seconds = 0.0;
  input::ReadStatistics reading;  ///< how the weights were read
  std::string reading_engine;     ///< BulkReader::engine()
  /// One line per row that is not measured, at most kMaxTroubles.
  std::vector<std::string> troubles;
  /// "NAME: why" of the first row in row order that asked for `exit_code`; else empty.
  std::string first_failure_reason;
  std::int64_t first_failure = -1;  ///< that row; negative: none
};

/// Counts a finished row, and whether the exit code is that of its failure.
void count_row(RunOutcome& outcome, const results::ResultRow& row, const RowFacts& facts);

/// What failed and why, what was measured twice, how long it took, in lines of at most `columns`
/// columns but for names and reasons. What was read, and how fast, where `is_verbose`, or where
/// reading took most of a run of five seconds or more.
std::string outcome_text(const RunOutcome& outcome, std::size_t columns = kUsualWidth,
                         const char* noun = "matrices", bool is_verbose = false);

/// "NAME: why" of the first row in row order that asks for an exit code, and how many more rows
/// have no measurement. Only where outcome.first_failure_reason is not empty.
std::string failure_text(const RunOutcome& outcome, const char* noun = "matrices");

}  // namespace vindex::engine
