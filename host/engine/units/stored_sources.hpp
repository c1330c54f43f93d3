// Owns when a file of a model has done its duty: every row that a run was to make of it is stored
// for good. Copies of what was read of it may go then (ByteSource::results_are_stored()).
#pragma once

#include "engine/plan/work_plan.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace vindex::engine {

/// Not thread-safe.
class StoredSources {
 public:
  StoredSources() = default;
  /// Of a run that is still to make the rows of `works`, of `models`, which outlive this. Files
  /// that none of them needs are told at once.
  StoredSources(const ModelViews& models, const std::vector<RowWork>& works);

  /// `row` is there, but may be lost.
  void made(std::int64_t row) { made_.push_back(row); }
  /// All rows made so far are stored; tells the files that no other row needs.
  void stored();

 private:
  void tell(std::size_t source);

  std::vector<ByteSource*> sources_;
  std::vector<std::int64_t> open_rows_;                      ///< per source
  std::map<std::int64_t, std::vector<std::size_t>> needed_;  ///< sources by row
  std::vector<std::int64_t> made_;
};

}  // namespace vindex::engine
