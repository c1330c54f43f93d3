// Owns where a run stands, from its parts, locks and heartbeats.
#include "run_status.hpp"

#include "gather_run.hpp"

#include "results/parts/parts_folder.hpp"
#include "results/parts/run_lock.hpp"
#include "results/parts/share_record.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <utility>

namespace vindex::results {

namespace {

/// Adds what processes have reported and not published. `listing` was made after the heartbeats
/// were read: where their worker has published a part since, that part holds their rows.
void add_heartbeats(RunStatus& status, const Heartbeats& heartbeats, const RunFiles& listing) {
  std::vector<FailedRow> reported;
  for (const std::string& tag : heartbeats.alive) {
    const Heartbeat& heartbeat = heartbeats.all.at(tag);
    status.rate_per_second += heartbeat.progress.rate_per_second;
    status.eta_seconds = std::max(status.eta_seconds, heartbeat.progress.eta_seconds);
    const std::string& worker = tag;
    const std::int64_t sequence = heartbeat.sequence;
    if (std::any_of(listing.files.parts.begin(), listing.files.parts.end(),
                    [&](const std::string& part) {
                      return part_sequence(part, worker).value_or(-1) >= sequence;
                    })) {
      continue;
    }
    status.done += heartbeat.matrices.done;
    status.failed += heartbeat.matrices.failed;
    status.derived_done += heartbeat.derived.done;
    status.derived_failed += heartbeat.derived.failed;
    for (const RowName& mended : heartbeat.mended_rows) {
      std::erase_if(status.failed_rows,
                    [&](const FailedRow& row) { return name_of(row) == mended; });
    }
    reported.insert(reported.end(), heartbeat.failed_rows.begin(), heartbeat.failed_rows.end());
  }
  for (FailedRow& row : reported) {
    const bool is_known =
        std::any_of(status.failed_rows.begin(), status.failed_rows.end(),
                    [&](const FailedRow& known) { return name_of(known) == name_of(row); });
    if (!is_known && status.failed_rows.size() < kMaxFailedRows) {
      status.failed_rows.push_back(std::move(row));
    }
  }
  // A heartbeat is a text of another process: whatever it says, the counts stay counts.
  const auto clamp = [](std::int64_t total, std::int64_t& done, std::int64_t& failed,
                        std::int64_t& left) {
    failed = std::clamp<std::int64_t>(failed, 0, total);
    done = std::clamp<std::int64_t>(done, 0, total - failed);
    left = total - failed - done;
  };
  clamp(status.matrices_total, status.done, status.failed, status.left);
  clamp(status.derived_total, status.derived_done, status.derived_failed, status.derived_left);
}

/// The shares of a run whose processes claim them, and those with a record.
void add_shares(RunStatus& status, const std::vector<std::string>& records) {
  for (const WorkerStatus& worker : status.worker_list) {
    const std::int32_t count = count_of_tag(worker.tag);
    if (!share_of_tag(worker.tag, count)) {
      status.shares_total = count;
    }
  }
  for (const std::string& tag : records) {
    status.shares_done += share_of_tag(tag, status.shares_total) ? 1 : 0;
  }
}

RunStatus status_of(const std::string& path, const RunFiles& listing,
                    const Heartbeats& heartbeats) {
  RunStatus status;
  GatheredRows gathered;
  status.schema = gather_run(path, listing, gathered, std::nullopt);
  const std::vector<const StoredRow*> rows = gathered.sorted();
  const StatusCounts all = count_statuses(rows);
  const StatusCounts counts = count_statuses(rows_of(rows, model::ResultTable::kMatrix));
  status.matrices_total = counts.total;
  status.n_total = drawn_from(rows_of(rows, model::ResultTable::kMatrix));
  status.failed = counts.failed;
  status.done = counts.total - counts.failed - counts.skipped;
  status.derived_total = all.total - counts.total;
  status.derived_failed = all.failed - counts.failed;
  status.derived_left = all.skipped - counts.skipped;
  status.derived_done = status.derived_total - status.derived_failed - status.derived_left;
  status.state = state_of(listing, rows);
  for (const StoredRow* row : rows) {
    if (is_failure(row->status) && status.failed_rows.size() < kMaxFailedRows) {
      status.failed_rows.push_back({.table = row->table,
                                    .tensor = escaped(row->tensor),
                                    .slice = row->slice,
                                    .status = kStatusNames[static_cast<std::size_t>(row->status)],
                                    .reason = printable(row->reason)});
    }
  }
  add_heartbeats(status, heartbeats, listing);
  return status;
}

}  // namespace

FileSchema schema_at(const std::string& path) {
  return read_while_it_stays(path, [&] {
    const RunFiles run = list_run(path);
    return ResultsReader(describing_file(path, run), std::nullopt).header().schema;
  });
}

RunStatus read_status(const std::string& path) {
  return read_while_it_stays(path, [&] {
    const std::string folder = parts_folder(path);
    const Heartbeats heartbeats = read_heartbeats(folder);
    const auto workers = static_cast<std::int32_t>(live_tags(folder).size());
    const std::vector<std::string> records = record_tags(folder);
    RunStatus status = status_of(path, list_run(path), heartbeats);
    status.workers = workers;
    status.gone = static_cast<std::int32_t>(heartbeats.all.size() - heartbeats.alive.size());
    status.worker_list = list_workers(folder, heartbeats);
    if (status.left + status.derived_left == 0) {
      // Earlier versions left no records.
      for (WorkerStatus& worker : status.worker_list) {
        worker.state = worker.state == WorkerState::kStopped ? WorkerState::kDone : worker.state;
      }
    }
    add_shares(status, records);
    if (status.shares_total > 0 && status.rate_per_second > 0.0) {
      // Who finishes early goes on with what is left.
      status.eta_seconds = static_cast<double>(status.left) / status.rate_per_second;
    }
    return status;
  });
}

}  // namespace vindex::results
