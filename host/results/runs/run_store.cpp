// Owns the store of a run: opening or resuming, publishing parts, finishing.
#include "run_store.hpp"

#include "earlier_run.hpp"
#include "share_ledger.hpp"

#include "core/files/temporary_files.hpp"
#include "core/text/secrets.hpp"
#include "results/parts/heartbeat.hpp"
#include "results/parts/output_path.hpp"
#include "results/parts/parts_folder.hpp"
#include "results/parts/publish.hpp"
#include "results/parts/run_lock.hpp"
#include "results/reading/gathered_rows.hpp"
#include "results/schema/present_arrays.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <set>
#include <unistd.h>
#include <utility>

namespace vindex::results {

namespace {

/// A run of one process that is over by then leaves no news of it.
constexpr double kQuietSeconds = 1.0;

class Store final : public RunStore {
 public:
  Store(const std::string& path, const RunDescription& run, const WorkerShare& share, bool restart,
        std::uint64_t pending_bytes)
      : max_pending_bytes_(pending_bytes),
        path_(resolve_output(path)),
        folder_(parts_folder(path_)),
        tag_(share.claims ? claimer_tag(share.count) : worker_tag(share.index, share.count)),
        single_(share.is_single()),
        description_(describe(run)),
        ledger_(folder_, share) {
    expects(share.count >= 1 && share.index >= 0 && share.index < share.count,
            "a worker's share out of range");
    expects(share.owners.size() == (share.owners.empty() ? 0 : run.matrices.size()),
            "a share for every row");
    require_replaceable(path_, description_.schema);
    if (!restart) {
      require_same_run(path_, folder_, description_);
    }
    make_parts_folder(folder_);
    try {
      lock_.emplace(folder_, tag_);
      remove_stale_temporaries_of(path_);
      remove_stale_temporaries_in(folder_);
      if (restart) {
        discard_run(path_, folder_);
      } else {
        require_same_run(path_, folder_, description_);
      }
      load(run);
    } catch (...) {
      lock_.reset();
      leave_folder();
      throw;
    }
  }

  ~Store() override {
    gathered_.pool().close_all();
    ledger_.give_back();
    leave_heartbeat();
    lock_.reset();
    leave_folder();
  }

  const std::vector<bool>& done() const override { return done_; }

  void add(ResultRow row) override {
    expects(row.index >= 0 && static_cast<std::size_t>(row.index) < selected_.size(),
            "a result of a matrix that was not selected");
    if (!lock_) {  // published complete before, and measuring on
      make_parts_folder(folder_);
      lock_.emplace(folder_, tag_);
    }
    const std::size_t number = selected_[static_cast<std::size_t>(row.index)];
    done_[static_cast<std::size_t>(row.index)] = is_settled(row.status);
    pending_bytes_ += (row.sigma.size() + row.cells.size()) * sizeof(double) + sizeof(StoredRow);
    if (row.vectors) {
      pending_bytes_ += (row.vectors->left.size() + row.vectors->right.size()) * sizeof(float);
    }
    require_fitting(description_, row);
    for (const ArrayCell& array : row.arrays) {
      pending_bytes_ += array.bytes();
    }
    const MatrixStatus before = gathered_[number].status;
    set_outcome(gathered_[number], std::move(row), description_.store_spectra,
                schema_of(description_.schema).has_spectra);
    count_outcome(heartbeat_, before, gathered_[number]);
    is_pending_.resize(gathered_.size());
    if (!is_pending_[number]) {
      is_pending_[number] = true;
      pending_.push_back(number);
    }
    dirty_ = true;
    refresh();
    if (pending_bytes_ > max_pending_bytes_) {
      publish_part();
    }
  }

  void set_environment(const std::string& json) override {
    description_.environment = without_secrets(json);
  }

  void publish_part() override {
    refresh();
    if (pending_.empty()) {
      return;
    }
    describe_run();
    std::sort(pending_.begin(), pending_.end(), [this](std::size_t a, std::size_t b) {
      const std::int32_t share_a = ledger_.part_of(a);
      const std::int32_t share_b = ledger_.part_of(b);
      return share_a != share_b ? share_a < share_b : row_before(gathered_[a], gathered_[b]);
    });
    while (!pending_.empty()) {
      publish_rows_of(ledger_.part_of(pending_.front()));
    }
    forget_pending();
  }

  void show_progress(const RunProgress& progress) override {
    constexpr std::chrono::seconds kInterval(1);
    const auto now = std::chrono::steady_clock::now();
    if (!lock_ || (heartbeat_age_ && now - *heartbeat_age_ < kInterval)) {
      return;
    }
    if (!undescribed_.empty() && progress.elapsed_seconds < kQuietSeconds) {
      return;
    }
    heartbeat_age_ = now;
    refresh();
    describe_run();
    heartbeat_.owner = lock_->owner();
    heartbeat_.sequence = sequence_;
    heartbeat_.progress = progress;
    write_heartbeat(folder_, tag_, heartbeat_);
  }

  void publish_file() override {
    if (publish_at_once()) {
      return;
    }
    publish_part();
    if (!single_) {
      if (lock_ && !ledger_.claims()) {
        record_share(ledger_.own());
      }
      return;
    }
    const std::vector<const StoredRow*> rows = gathered_.sorted();
    if (dirty_ || !file_is_current_) {
      publish_results(path_, description_, rows, gathered_.pool());
      dirty_ = false;
      file_is_current_ = true;
    }
    if (count_statuses(rows).skipped == 0) {
      leave_parts();
    }
  }

  ShareState take_share(std::int32_t share) override { return ledger_.take(share, gathered_); }

  void finish_share(std::int32_t share) override {
    publish_part();
    record_share(share);
    ledger_.give_back(share);
  }

 private:
  /// Publishes a run all of whose rows wait in memory, and says whether it is one. Its file is
  /// written without a part before it: a kill meanwhile loses what one just before would have lost,
  /// and where the file cannot be written the rows still wait for a part.
  bool publish_at_once() {
    if (!single_ || !lock_ || pending_.size() != gathered_.size() || has_files_) {
      return false;
    }
    const std::vector<const StoredRow*> rows = gathered_.sorted();
    if (count_statuses(rows).skipped != 0) {
      return false;
    }
    refresh();
    publish_results(path_, description_, rows, gathered_.pool());
    dirty_ = false;
    file_is_current_ = true;
    forget_pending();
    leave_parts();
    return true;
  }

  /// What waited is in a file.
  void forget_pending() {
    pending_.clear();
    is_pending_.clear();
    pending_bytes_ = 0;
    heartbeat_ = {};  // what it counted is in the file
    heartbeat_age_.reset();
  }

  /// The file holds every row, and rows now come from it, should more be asked for.
  void leave_parts() {
    gathered_.relocate(path_);
    leave_heartbeat();
    lock_.reset();
    remove_parts(folder_);
  }

  /// Publishes the description of the run, once, where that is still due.
  void describe_run() {
    if (undescribed_.empty()) {
      return;
    }
    std::vector<const StoredRow*> pointers;
    for (const StoredRow& row : undescribed_) {
      pointers.push_back(&row);
    }
    publish_run(folder_, tag_, description_, pointers);
    undescribed_ = {};
  }

  /// Shows that this process lives; cheap.
  void refresh() {
    if (lock_) {
      lock_->refresh();
      ledger_.refresh();
    }
  }

  /// Publishes those at the front of `pending_` that go into one part: all rows, or those of a
  /// share, so that a record can name the parts of its share alone.
  void publish_rows_of(std::int32_t share) {
    std::vector<const StoredRow*> rows;
    for (const std::size_t number : pending_) {
      if (ledger_.part_of(number) != share) {
        break;
      }
      rows.push_back(&gathered_[number]);
    }
    const std::string part =
        publish_rows(folder_, tag_, sequence_, description_, rows, gathered_.pool());
    const std::int32_t source = gathered_.pool().add(part);
    has_files_ = true;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      is_pending_[pending_[i]] = false;
      gathered_[pending_[i]].bulk = {
          .memory = nullptr, .source = source, .row = static_cast<std::int64_t>(i)};
    }
    pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(rows.size()));
  }

  void record_share(std::int32_t share) {
    if (ledger_.is_finished(share, gathered_)) {
      ledger_.record(share, gathered_, lock_->owner());
    }
  }

  void load(const RunDescription& run) {
    for (std::size_t i = 0; i < run.matrices.size(); ++i) {
      StoredRow row = row_of(run.matrices[i]);
      if (!run.compare.partners.empty()) {
        row.other_tensor = escaped(run.compare.partners.at(i).first);
        row.other_encoding = printable(run.compare.partners.at(i).second);
      }
      selected_.push_back(gathered_.add(std::move(row)));
    }
    // Skeletons of the selection: outcomes have not been loaded yet.
    for (const StoredRow* row : gathered_.sorted()) {
      undescribed_.push_back(*row);
    }
    if (file_exists(path_)) {
      const ResultsReader reader(path_, description_.schema);
      description_.history = joined_history(reader.description().history, description_.history);
      keep_derived_lines(description_.fingerprint, reader.fingerprint());
      complete_before_ = reader.header().status == "complete";
    }
    // Records first: what they name is there.
    ledger_.note(selected_, gathered_);
    const PartFiles files = list_parts(folder_);
    for (const std::string& file : files.runs) {
      keep_derived_lines(description_.fingerprint,
                         ResultsReader(file, description_.schema).fingerprint());
    }
    if (file_exists(path_)) {
      gathered_.add_file(path_);
    }
    std::size_t in_file = 0;
    for (std::size_t i = 0; i < gathered_.size(); ++i) {
      in_file += gathered_[i].bulk.source >= 0 ? 1 : 0;
    }
    for (const std::string& part : files.parts) {
      verify_part(part);
      gathered_.add_file(part);
      if (const auto number = part_sequence(part, tag_)) {
        sequence_ = std::max(sequence_, *number + 1);
      }
    }
    file_is_current_ = complete_before_ && files.parts.empty() && in_file == gathered_.size();
    has_files_ = file_exists(path_) || !files.parts.empty();
    done_.resize(selected_.size());
    bool work_left = false;
    for (std::size_t i = 0; i < selected_.size(); ++i) {
      done_[i] = is_settled(gathered_[selected_[i]].status);
      work_left = work_left || !done_[i];
    }
    if (!work_left && file_is_current_) {
      undescribed_ = {};
    } else if (!single_ || has_files_ || !files.runs.empty()) {
      describe_run();
    }
    // Else nobody else works on it, and a run of a moment needs none: it is due with the first news
    // of it, a part or a heartbeat.
  }

  void leave_heartbeat() noexcept {
    if (lock_) {
      ::unlink(heartbeat_path(folder_, tag_).c_str());
    }
  }

  /// Leaves nothing behind where no row was published: a refused or idle run is no run.
  void leave_folder() noexcept {
    try {
      if (list_parts(folder_).parts.empty() && !is_locked(folder_)) {
        remove_parts(folder_);
      }
    } catch (const std::exception&) {
      // What stays is found and used, or removed, by the next run.
    }
  }

  std::uint64_t max_pending_bytes_;
  std::string path_, folder_, tag_;
  bool single_ = true;
  FileDescription description_;
  std::optional<RunLock> lock_;
  GatheredRows gathered_;
  ShareLedger ledger_;
  std::vector<std::size_t> selected_;  ///< per matrix of the run: its number in gathered_
  std::vector<bool> done_;
  std::vector<std::size_t> pending_;  ///< of no part yet: numbers in gathered_
  std::vector<bool> is_pending_;      ///< per number: it is among them
  std::uint64_t pending_bytes_ = 0;
  std::int64_t sequence_ = 0;
  Heartbeat heartbeat_;
  /// When it was written; none: it is due.
  std::optional<std::chrono::steady_clock::time_point> heartbeat_age_;
  std::vector<StoredRow> undescribed_;  ///< rows of the description that is still to be published
  bool complete_before_ = false;
  bool has_files_ = false;  ///< of an earlier run or of this one
  bool file_is_current_ = false;
  bool dirty_ = false;
};

/// What a file that is written would be refused for after all the work. Errors: FormatError (65)
/// E-MODEL-TENSOR-NAME.
void require_rows_to_hold(const RunDescription& run) {
  std::set<std::string> keys;
  for (const model::MatrixRecord& record : run.matrices) {
    const StoredRow row = row_of(record);
    const std::string key = fmt::format("{}\n{}", model::table_name(row.table), row_key(row));
    if (row.tensor.empty() || row.role.empty() || !keys.insert(key).second) {
      throw FormatError(
          "E-MODEL-TENSOR-NAME", row_name(row),
          row.tensor.empty() || row.role.empty()
              ? "a matrix without a name or a role, which no row of results can hold"
              : "two matrices have this name, as it is printed, and one row of results");
    }
  }
}

}  // namespace

std::unique_ptr<RunStore> open_run_store(const std::string& path, const RunDescription& run,
                                         const WorkerShare& share, bool restart,
                                         std::uint64_t pending_bytes) {
  require_rows_to_hold(run);
  return std::make_unique<Store>(path, run, share, restart, pending_bytes);
}

}  // namespace vindex::results
