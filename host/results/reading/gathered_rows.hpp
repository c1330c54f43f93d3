// Owns the union of rows from a selection, an earlier results file and parts: one row per matrix,
// the best outcome of each.
#pragma once

#include "source_pool.hpp"

#include "results/rows/stored_row.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace vindex::results {

/// What identifies a row over all tables of a file.
std::string table_key(const RowIdentity& row);

/// What becomes of a row that is there already with an outcome as good.
enum class Doubles : std::uint8_t {
  kLater,    ///< the later one is taken
  kSame,     ///< the earlier one, whose bits it must have; else E-PART-DOUBLED
  kEarlier,  ///< the earlier one, whatever the later one says
};

struct DoubleCounts {
  std::int64_t same = 0;         ///< of kSame
  std::int64_t passed_over = 0;  ///< of kEarlier
};

class GatheredRows {
 public:
  /// Adds a matrix without an outcome; its number. A matrix already there keeps its outcome.
  std::size_t add(StoredRow row);
  /// Adds every row of file `path`, whose fingerprint the caller has checked. Where a matrix is
  /// there already the better outcome stays, of equal ones as `doubles` says. Errors:
  /// ConfigurationError E-MERGE-SHAPE where shapes of one matrix differ, E-PART-DOUBLED.
  void add_file(const std::string& path, Doubles doubles = Doubles::kLater);
  const DoubleCounts& doubles() const { return doubles_; }
  StoredRow& operator[](std::size_t i) { return rows_[i]; }
  std::size_t size() const { return rows_.size(); }
  SourcePool& pool() { return pool_; }
  /// Rows in the file's order; pointers hold until the next add.
  std::vector<const StoredRow*> sorted() const;
  /// Says that the bulk of every row is in results file `path`, which holds them all in order.
  void relocate(const std::string& path);

 private:
  /// Where the row is, and whether `row` was moved there.
  std::pair<std::size_t, bool> place(StoredRow& row);
  bool is_better(const StoredRow& row, const StoredRow& present, Doubles doubles);
  bool has_same_result(const StoredRow& a, const StoredRow& b);

  std::vector<StoredRow> rows_;
  std::unordered_map<std::string, std::size_t> by_key_;
  DoubleCounts doubles_;
  SourcePool pool_{std::nullopt};
};

}  // namespace vindex::results
