// Owns what distinguishes one kind of results file from another: its name and version, what its
// first table is called, and what it does beyond its columns. Everything else - parts, resume,
// merging, publishing - is the same for all.
#pragma once

#include "cell_table.hpp"
#include "columns.hpp"
#include "run_description.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vindex::results {

class BulkSource;
class FileChecker;
class ResultsReader;
struct FileDescription;
struct ResultsView;
struct SideTables;
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
  const char* command = "";                    ///< that writes such files: "measure"
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

/// What the rows of a file are called, and the command that writes them.
const char* row_noun(FileSchema schema);         ///< "matrices", "pairs"
const char* writing_command(FileSchema schema);  ///< "measure", "compare"
const char* outcome_word(FileSchema schema);     ///< "measured", "compared": what a finished row is

/// "/matrix", "/imatrix", "/pair": the group of a table's columns.
std::string table_group(const Schema& schema, model::ResultTable table);

}  // namespace vindex::results
