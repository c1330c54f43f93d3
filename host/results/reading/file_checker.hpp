// Owns what every kind of results file is checked for: datasets with their types, shapes, scales
// and attributes, the order of rows, the counts, and that all data can be read. What is wrong is
// gathered, one line each.
#pragma once

#include "results_reader.hpp"

#include "results/schema/columns.hpp"
#include "results/schema/side_table.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace vindex::results {

/// Rows of `row_bytes` bytes that are read at once.
inline std::uint64_t rows_per_block(std::uint64_t row_bytes) {
  constexpr std::uint64_t kBlockBytes = 4U << 20U;
  return std::max<std::uint64_t>(1, kBlockBytes / std::max<std::uint64_t>(row_bytes, 1));
}

class FileChecker {
 public:
  explicit FileChecker(ResultsReader& reader) : reader_(reader), file_(reader.file()) {}

  ResultsReader& reader() { return reader_; }
  const FileDescription& description() const { return description_; }
  /// Of the table that is being checked.
  const std::vector<StoredRow>& rows() const { return rows_; }

  void require(bool condition, const std::string& what) {
    if (!condition) {
      wrong_.push_back(printable(what));
    }
  }
  void require_attribute(const std::string& path, const char* name) {
    require(file_.has_attribute(path, name), path + ": attribute " + name + " is missing");
  }
  /// Runs `check`; what the reader objects to is a line of the report.
  template <typename F>
  void attempt(F check) {
    try {
      check();
    } catch (const FormatError& error) {
      wrong_.emplace_back(error.what());
    }
  }

  /// Reads all of `dataset`, which is `path` and no scalar, a few megabytes at a time. Errors:
  /// FormatError where a part of it cannot be read.
  void read_through(const h5::Dataset& dataset, const std::string& path);
  /// All of `path` was read, in another way.
  void note_read(const std::string& path) { read_.insert(path); }
  /// Whatever has a digest and was not read yet, and the text attributes of everything.
  void digests();
  /// Type and shape of `path`, its scale, its long_name; reads it all.
  void column(const std::string& path, h5::Type type, const h5::Shape& shape,
              const std::string& scale);
  /// That the file has `wanted`, however many rows it has.
  void table(const SideTable& wanted);
  /// The columns `wanted` of a table of rows, its scale and its status.
  void row_columns(model::ResultTable table, const std::vector<Column>& wanted);
  /// Order, keys, identities and outcomes of rows_, which are of `table`.
  void order(model::ResultTable table);
  /// That what says which matrix a row is of lies within what it may be; `where` names the row.
  void identity(const std::string& where, const StoredRow& row);
  /// That no number of the int32 or int64 column `path` is below `least`.
  void at_least(const std::string& path, std::int64_t least);
  /// That every word of `path` is a block that files of this version have.
  void block_words(const std::string& path);
  StatusCounts counts_of_rows() const;
  /// The root's counts and status against rows_, which are of the first table.
  void counts(std::int64_t derived_skipped);
  /// The texts of /run/, and all of /resume/.
  void run_texts();
  void resume();

 protected:
  std::string group_of(model::ResultTable table) const {
    return table_group(reader_.schema(), table);
  }

  ResultsReader& reader_;
  const h5::File& file_;
  FileDescription description_;
  std::vector<StoredRow> rows_;
  std::vector<std::string> wrong_;

 private:
  void digests_below(const std::string& group);
  std::set<std::string> read_;  ///< paths of what was read through
};

/// One measured row of a file whose rows are cells, while it is checked.
struct RowRules {
  FileChecker& checker;
  const StoredRow& row;

  /// Where not `condition`, "/table/column: row what" is wrong.
  void require(bool condition, std::string_view column, std::string_view what) const;
  double cell(std::size_t number) const { return row.cells.at(number); }
  ArrayCell array(std::size_t number) const {
    return checker.reader().arrays().read(row.bulk.row, number);
  }
};

/// Runs `check` on every measured row. What the reader objects to is a line of the report.
void check_rows(FileChecker& checker, void (*check)(const RowRules&));

}  // namespace vindex::results
