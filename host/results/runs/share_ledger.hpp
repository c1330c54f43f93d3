// Owns which shares of a run a process has: the one it was given, or those it claims one by one, as
// locks of OUT.h5.parts/claims/ (lock_file.hpp: a file that appears by link()). A claim decides who
// works, never what is right: parts are named by their content, and a record (share_record.hpp)
// says which parts count. So a claim that two processes believe to have costs work alone.
#pragma once

#include "worker_share.hpp"

#include "results/parts/lock_file.hpp"
#include "results/parts/share_record.hpp"
#include "results/reading/gathered_rows.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace vindex::results {

class ShareLedger {
 public:
  /// Of the run whose parts are in `folder`. Nothing is touched yet.
  ShareLedger(std::string folder, const WorkerShare& share);

  bool claims() const { return share_.claims; }
  /// The share that was given.
  std::int32_t own() const { return share_.index; }
  /// Before parts are loaded: `selected[i]` is the number in `rows` of row i of the run. Remembers
  /// the records that there are, since what they name is loaded next.
  void note(const std::vector<std::size_t>& selected, GatheredRows& rows);
  /// Which part row `number` of `rows` goes to: one for each share that is claimed, else one.
  std::int32_t part_of(std::size_t number) const;

  /// RunStore::take_share(). `rows`: as loaded, and what this process has added.
  ShareState take(std::int32_t share, GatheredRows& rows);
  /// Whether every row of `share` has an outcome; false where shares are not known.
  bool is_finished(std::int32_t share, GatheredRows& rows) const;
  /// Records a finished share, whose rows are published.
  void record(std::int32_t share, GatheredRows& rows, const std::string& owner);
  void give_back(std::int32_t share) { claimed_.erase(share); }
  void give_back() { claimed_.clear(); }
  /// Shows that the owner of the claims lives: call it often, it writes every 20 s.
  void refresh();

 private:
  bool was_finished_by_others(std::int32_t share) const;

  std::string folder_;
  WorkerShare share_;
  std::string division_;                        ///< division_digest()
  std::vector<std::vector<std::size_t>> rows_;  ///< per share, numbers in GatheredRows
  std::vector<std::int32_t> share_of_number_;
  std::map<std::string, ShareRecord> noted_;  ///< by tag
  std::map<std::int32_t, std::unique_ptr<LockFile>> claimed_;
  std::set<std::int32_t> finished_;  ///< by this process
  std::chrono::steady_clock::time_point refreshed_;
};

}  // namespace vindex::results
