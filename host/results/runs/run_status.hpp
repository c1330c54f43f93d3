// Owns where a run stands, seen from outside: rows done and left, its processes, failed rows.
#pragma once

#include "results/parts/heartbeat.hpp"
#include "results/parts/worker_states.hpp"
#include "results/schema/run_description.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace vindex::results {

struct RunStatus {
  FileSchema schema = FileSchema::kResults;
  /// Of the file: "complete", "partial"; of parts alone "finished" (to be merged), "running".
  std::string state;
  /// Rows of /matrix/, or of /pair/. Finished rows count whether they are published or a working
  /// process has reported them.
  std::int64_t matrices_total = 0, done = 0, failed = 0, left = 0;
  /// Of a file with drawn rows: matrices in the model of all groups that they are of, the ones left
  /// out among them; else 0.
  std::int64_t n_total = 0;
  /// The same of the rows of all derived tables together.
  std::int64_t derived_total = 0, derived_done = 0, derived_failed = 0, derived_left = 0;
  std::int32_t workers = 0;  ///< processes that work on it now
  std::int32_t gone = 0;     ///< processes that were killed: what they had not published is lost
  std::vector<WorkerStatus> worker_list;  ///< of a run of several, by share; else empty
  /// Shares, where processes claim them; 0: they do not.
  std::int32_t shares_total = 0, shares_done = 0;
  double rate_per_second = 0.0;        ///< of all workers together
  double eta_seconds = -1.0;           ///< of the slowest; negative: not known
  std::vector<FailedRow> failed_rows;  ///< in the file's order, at most kMaxFailedRows
};

/// The schema of the run at `path`: of the published file, or of its parts. Errors:
/// MissingInputError where there is neither, FormatError as validate_file().
FileSchema schema_at(const std::string& path);

/// Where the run of results file `path` stands. Errors: MissingInputError, FormatError.
RunStatus read_status(const std::string& path);

}  // namespace vindex::results
