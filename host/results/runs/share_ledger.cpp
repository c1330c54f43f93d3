// Owns taking and giving back claims, and what a record of a share says.
#include "share_ledger.hpp"

#include "core/files/atomic_file.hpp"
#include "core/files/path_kind.hpp"
#include "results/parts/output_path.hpp"
#include "results/parts/parts_folder.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <cerrno>
#include <sys/stat.h>
#include <utility>

namespace vindex::results {

namespace {

void make_claims_folder(const std::string& path) {
  if (::mkdir(path.c_str(), 0777) != 0 && errno != EEXIST) {
    throw_output_error("E-OUT-CREATE", errno, "cannot create folder " + printable(path));
  }
}

}  // namespace

ShareLedger::ShareLedger(std::string folder, const WorkerShare& share)
    : folder_(std::move(folder)), share_(share), refreshed_(std::chrono::steady_clock::now()) {
  expects(!share_.claims || !share_.owners.empty(), "shares that are claimed are known");
}

void ShareLedger::note(const std::vector<std::size_t>& selected, GatheredRows& rows) {
  if (share_.owners.empty()) {
    return;
  }
  rows_.resize(static_cast<std::size_t>(share_.count));
  share_of_number_.assign(rows.size(), 0);
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < selected.size(); ++i) {
    const std::int32_t share = share_.owners[i];
    rows_.at(static_cast<std::size_t>(share)).push_back(selected[i]);
    share_of_number_[selected[i]] = share;
    keys.push_back(table_key(rows[selected[i]]));
  }
  division_ = division_digest(keys, share_.owners);
  for (const std::string& tag : record_tags(folder_)) {
    if (auto record = read_record(folder_, tag)) {
      noted_.emplace(tag, *std::move(record));
    }
  }
}

std::int32_t ShareLedger::part_of(std::size_t number) const {
  return share_.claims && number < share_of_number_.size() ? share_of_number_[number] : 0;
}

bool ShareLedger::is_finished(std::int32_t share, GatheredRows& rows) const {
  if (rows_.empty()) {
    return false;
  }
  const std::vector<std::size_t>& own = rows_.at(static_cast<std::size_t>(share));
  return std::all_of(own.begin(), own.end(), [&](std::size_t number) {
    return rows[number].status != MatrixStatus::kSkipped;
  });
}

/// A record that was there at the beginning says nothing new: its rows are loaded, and those that
/// failed are tried again.
bool ShareLedger::was_finished_by_others(std::int32_t share) const {
  const std::string tag = worker_tag(share, share_.count);
  const auto record = read_record(folder_, tag);
  const auto noted = noted_.find(tag);
  return record && record->division == division_ &&
         (noted == noted_.end() || noted->second != *record);
}

ShareState ShareLedger::take(std::int32_t share, GatheredRows& rows) {
  expects(share_.claims && share >= 0 && share < share_.count, "a share that can be claimed");
  const std::vector<std::size_t>& own = rows_.at(static_cast<std::size_t>(share));
  const bool is_settled_here = std::all_of(
      own.begin(), own.end(), [&](std::size_t number) { return is_settled(rows[number].status); });
  const std::string tag = worker_tag(share, share_.count);
  const auto noted = noted_.find(tag);
  const bool is_recorded = noted != noted_.end() && noted->second.division == division_;
  if (finished_.contains(share) || (is_settled_here && (is_recorded || own.empty())) ||
      was_finished_by_others(share)) {
    return ShareState::kFinished;
  }
  const std::string claims = claims_folder(folder_);
  make_claims_folder(claims);
  std::unique_ptr<LockFile> lock = LockFile::try_take(claims + "/" + tag + ".lock", kClaimSeconds);
  if (lock == nullptr) {
    return ShareState::kElsewhere;
  }
  if (was_finished_by_others(share)) {  // between the two
    return ShareState::kFinished;
  }
  claimed_.insert_or_assign(share, std::move(lock));
  return ShareState::kTaken;
}

void ShareLedger::record(std::int32_t share, GatheredRows& rows, const std::string& owner) {
  std::set<std::string> parts;
  const std::vector<std::size_t>& own = rows_.at(static_cast<std::size_t>(share));
  for (const std::size_t number : own) {
    const std::string& path = rows.pool().path(rows[number].bulk.source);
    if (folder_of(path) == folder_) {  // else it is in the results file already
      parts.insert(file_name_of(path));
    }
  }
  const std::string tag = worker_tag(share, share_.count);
  const ShareRecord record{.division = division_,
                           .owner = owner,
                           .rows = static_cast<std::int64_t>(own.size()),
                           .parts = {parts.begin(), parts.end()}};
  if (const auto before = read_record(folder_, tag);
      !before || before->division != record.division || before->parts != record.parts) {
    write_record(folder_, tag, record);
  }
  finished_.insert(share);
}

void ShareLedger::refresh() {
  constexpr std::chrono::seconds kInterval(20);
  const auto now = std::chrono::steady_clock::now();
  if (now - refreshed_ >= kInterval) {
    refreshed_ = now;
    for (const auto& [share, lock] : claimed_) {
      lock->refresh();
    }
  }
}

}  // namespace vindex::results
