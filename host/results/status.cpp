#include "gathered_rows.hpp"
#include "parts_folder.hpp"
#include "result_tables.hpp"
#include "results_file.hpp"

#include <vindex/core/error.hpp>

namespace vindex::results {

RunStatus read_status(const std::string& path) {
  const PartFiles files = list_parts(parts_folder(path));
  if (!file_exists(path) && files.runs.empty() && files.parts.empty()) {
    throw MissingInputError("E-RESULTS-MISSING",
                            printable(path) + " does not exist, and no run is writing it");
  }
  RunStatus status;
  GatheredRows gathered;
  for (const std::string& run : files.runs) {
    gathered.add_file(run);
  }
  if (file_exists(path)) {
    gathered.add_file(path);
  }
  for (const std::string& part : files.parts) {
    gathered.add_file(part);
  }
  const std::vector<const StoredRow*> rows = gathered.sorted();
  const StatusCounts all = count_statuses(rows);
  const StatusCounts counts = count_statuses(rows_of(rows, model::ResultTable::kMatrix));
  status.matrices_total = counts.total;
  status.failed = counts.failed;
  status.left = counts.skipped;
  status.done = counts.total - counts.failed - counts.skipped;
  status.derived_total = all.total - counts.total;
  status.derived_failed = all.failed - counts.failed;
  status.derived_left = all.skipped - counts.skipped;
  status.derived_done = status.derived_total - status.derived_failed - status.derived_left;
  status.state = !file_exists(path) ? "running" : (all.skipped == 0 ? "complete" : "partial");
  return status;
}

}  // namespace vindex::results
