// Owns what a working process reports of itself: OUT.h5.parts/<i>of<n>.progress, a small text file,
// replaced whole at most once a second and removed at the end. It counts the rows that are finished
// and in no part yet; parts and heartbeats together are where a run stands. Lines "name value":
//   owner HOST PID START   as in the lock of the same worker: one without that lock is a dead
//                          process's, and its rows are lost
//   sequence N             parts published before; rows of a heartbeat are in part N or later
//   done, failed           rows of /matrix/ by which the parts' counts change (a row measured again
//                          may make `failed` negative)
//   derived-done, derived-failed   the same of all derived tables
//   rate, eta, seconds     of this process; eta is left out where it is not known
//   pace, own-total, own-done   as in RunProgress; own-total is left out where shares are claimed
//   failed-row SLICE STATUS NAME, and a tab, the reason; mended-row SLICE NAME: bounded lists; of
//                          a derived table failed-row/TABLE and mended-row/TABLE
#pragma once

#include "results/rows/stored_row.hpp"

#include <cstdint>
#include <ctime>
#include <string>
#include <vector>

namespace vindex::results {

/// What a run reports of its own work while it goes on.
struct RunProgress {
  double elapsed_seconds = 0.0;
  double rate_per_second = 0.0;  ///< matrices
  double eta_seconds = -1.0;     ///< negative: not known yet
  /// Arithmetic per second lately, in a unit that all workers of a run share: what they are
  /// compared by, since their matrices differ. 0: not known yet.
  double pace = 0.0;
  std::int64_t own_total = -1;  ///< rows of this worker's share; negative: it claims them
  std::int64_t own_done = 0;    ///< of them, failed ones among them
};

/// A row without a measurement: its names are printable().
struct FailedRow {
  model::ResultTable table = model::ResultTable::kMatrix;
  std::string tensor;
  std::int32_t slice = -1;
  std::string status;  ///< "failed", "unsupported" or "not_converged"
  std::string reason;
};

/// Failed rows that are reported by name; the file has them all.
inline constexpr std::size_t kMaxFailedRows = 20;

/// Which row of a run; a derived one has the name of its matrix.
struct RowName {
  model::ResultTable table = model::ResultTable::kMatrix;
  std::string tensor;
  std::int32_t slice = -1;
  bool operator==(const RowName&) const = default;
};
inline RowName name_of(const FailedRow& row) { return {row.table, row.tensor, row.slice}; }

/// Changes of the parts' counts.
struct FinishedCounts {
  std::int64_t done = 0, failed = 0;
};

struct Heartbeat {
  std::string owner;
  std::int64_t sequence = 0;
  FinishedCounts matrices, derived;
  RunProgress progress;
  std::vector<FailedRow> failed_rows;  ///< at most kMaxFailedRows
  std::vector<RowName> mended_rows;    ///< failed in a part, now done; at most kMaxFailedRows
};

/// Adds the outcome of `after`, whose status was `before`.
void count_outcome(Heartbeat& heartbeat, MatrixStatus before, const StoredRow& after);

std::string heartbeat_text(const Heartbeat& heartbeat);
/// Lines that are none of these are passed over: a later version may write more.
Heartbeat parse_heartbeat(const std::string& text);

std::string heartbeat_path(const std::string& folder, const std::string& tag);
/// Replaces the file of worker `tag`. A failure is left to what is published: this file is only
/// informative.
void write_heartbeat(const std::string& folder, const std::string& tag, const Heartbeat& heartbeat);
/// The file's content, or an empty heartbeat where there is none.
Heartbeat read_heartbeat(const std::string& folder, const std::string& tag);
/// Seconds since the heartbeat of worker `tag` was written, `now` being by the clock that stamps
/// files; negative where there is none.
double heartbeat_age(const std::string& folder, const std::string& tag, std::time_t now);
/// Workers with a heartbeat in `folder`, by name.
std::vector<std::string> heartbeat_tags(const std::string& folder);

}  // namespace vindex::results
