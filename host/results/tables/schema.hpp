// Owns what distinguishes one kind of results file from another: its name and version, what its
// first table is called, and the columns of its tables. Everything else - parts, resume, merging,
// publishing - is the same for all.
#pragma once

#include "bulk_source.hpp"
#include "cell_table.hpp"
#include "columns.hpp"
#include "description.hpp"

#include "results/parts/run_store.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vindex::results {

class FileChecker;
class ResultsReader;
struct ResultsView;
struct Summary;
struct TableLayout;

/// A kind of file: what its rows and columns are, and what it does beyond them. A function that is
/// null does nothing.
struct Schema {
  FileSchema id = FileSchema::kResults;
  const char* name = "";                       ///< `schema_name`
  const char* version = "";                    ///< `schema_version`
  std::int64_t major = 1;                      ///< of it: newer ones are refused
  const char* rows = "";                       ///< what rows are called: "matrices"
  const char* verb = "";                       ///< that writes such files: "measure"
  const char* table = "";                      ///< group of the first table
  const char* dimension = "";                  ///< its dimension scale
  const char* name_column = "";                ///< of it: the tensor that a row is of
  bool has_spectra = false;                    ///< /spectra/, /vectors/ and derived tables
  const char* outcome = "";                    ///< what a finished row is: "measured"
  std::span<const MemberColumn> members = {};  ///< columns of what a row is of, in order
  const CellTable* cells = nullptr;            ///< the numbers behind them; never null
  /// Where arrays and their scales are: the group of the table, or (where this is not empty) the
  /// root, along a scale of this name that holds the rows' layers.
  const char* root_scale = "";

  /// Adds what a table of a file about to be written has beside its optional columns.
  void (*add_groups)(const FileDescription&, model::ResultTable, TableLayout&) = nullptr;
  /// Adds lines of the fingerprint that say what rows hold.
  void (*add_lines)(const RunDescription&, Fingerprint&) = nullptr;
  /// Reads what only such files say of their run. Errors: FormatError.
  void (*describe)(const ResultsReader&, FileDescription&) = nullptr;
  /// What stands beside `rows`, the first table's in its order: of a whole file, or (`whole` false)
  /// of one that describes a run whose rows are in parts.
  SideTables (*beside)(const FileDescription&, std::span<const StoredRow* const> rows, BulkSource&,
                       bool whole) = nullptr;
  /// Checks what such files promise beyond columns, arrays and ranges.
  void (*check)(FileChecker&) = nullptr;
  /// Checks the whole file instead; what is wrong, one line each.
  std::vector<std::string> (*validate)(ResultsReader&) = nullptr;
  /// Numbers of a measured row that follow from its arrays of two dimensions, for what is shown.
  std::vector<std::vector<double>> (*derive)(const StoredRow&, BulkSource&) = nullptr;
  /// What is shown of its rows, for people and for programs.
  Summary (*summarise)(const ResultsView&) = nullptr;
};

/// Every kind of the program. The list is host/commands/schemas.cpp: each job declares its own.
std::span<const Schema> schemas();

const Schema& schema_of(FileSchema id);
/// The schema of files whose `schema_name` is `name`, or null.
const Schema* schema_named(std::string_view name);

/// A kind of file beside those of the program, for as long as this lives: the job of a test. It has
/// an id and a name of its own. One at a time, made before anything works on such files.
class ScopedSchema {
 public:
  explicit ScopedSchema(const Schema& schema);
  ~ScopedSchema();
  ScopedSchema(const ScopedSchema&) = delete;
  ScopedSchema& operator=(const ScopedSchema&) = delete;

 private:
  Schema schema_;
};

/// 2 of "1.2"; 0 where there is none.
std::int64_t minor_version(std::string_view version);

/// "/matrix", "/imatrix", "/pair": the group of a table's columns.
std::string table_group(const Schema& schema, model::ResultTable table);

/// What decides which columns a table of a file has.
struct TableLayout {
  /// Names of groups, and of optional columns, that are there.
  std::vector<std::string> groups = {};
  std::size_t chosen = 0;  ///< values of the scale that the run chooses
  std::int64_t minor = 0;  ///< version of the file
  bool has(std::string_view group) const;
};
/// The groups that follow from the table and the mode, of files with spectra.
void add_structural_groups(model::ResultTable table, bool fast, TableLayout& layout);
/// Of `table` in a file about to be written, or in `file` by what it holds.
TableLayout table_layout(const FileDescription& description, model::ResultTable table);
TableLayout table_layout(const Schema& schema, const h5::File& file, model::ResultTable table);

/// The columns of a table in order, without its scales.
std::vector<Column> table_columns(const Schema& schema, const TableLayout& layout);
inline std::vector<Column> table_columns(const Schema& schema, const h5::File& file,
                                         model::ResultTable table) {
  return table_columns(schema, table_layout(schema, file, table));
}
/// `cell` with its first number at `place`, as many as `chosen` where the run chooses.
Column cell_column(const CellColumn& cell, std::size_t place, std::size_t chosen);
/// Room that a row with all of `columns` needs.
std::size_t cells_of_row(const Schema& schema, const TableLayout& layout,
                         const std::vector<Column>& columns);

/// An array column that a file has.
struct PresentArray {
  const ArrayColumn* column = nullptr;
  std::size_t number = 0;           ///< in CellTable::arrays
  std::string path;                 ///< of its dataset
  std::vector<std::string> scales;  ///< paths, of the rows first
  /// Of a row. Empty: a scale has no values in the description.
  h5::Shape shape;
  std::uint64_t elements() const;
};
std::vector<PresentArray> present_arrays(const FileDescription& description);

/// The path of a scale, or of an array, of `schema`.
std::string array_path(const Schema& schema, std::string_view name);

/// Throws (internal) where a row has other cells or arrays than `description` says.
void require_fitting(const FileDescription& description, const ResultRow& row);

/// What a later run needs beside the tables (not part of any contract; may change).
std::vector<Column> resume_columns(const Schema& schema);

}  // namespace vindex::results
