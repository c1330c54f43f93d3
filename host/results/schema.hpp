// Owns what distinguishes one kind of results file from another: its name and version, what its
// first table is called, and the columns of its tables. Everything else - parts, resume, merging,
// publishing - is the same for all.
#pragma once

#include "columns.hpp"

#include <vindex/results/cell_table.hpp>
#include <vindex/results/run_store.hpp>

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vindex::results {

struct Schema {
  FileSchema id = FileSchema::kResults;
  const char* name = "";         ///< `schema_name`
  const char* version = "";      ///< `schema_version`
  std::int64_t major = 1;        ///< of it: newer ones are refused
  const char* rows = "";         ///< what rows are called: "matrices"
  const char* verb = "";         ///< that writes such files: "measure"
  const char* table = "";        ///< group of the first table
  const char* dimension = "";    ///< its dimension scale
  const char* name_column = "";  ///< of it: the tensor that a row is of
  bool has_spectra = false;      ///< /spectra/, /vectors/, /tensor/, /layer/ and derived tables
  const char* outcome = "";      ///< what a finished row is: "measured"
  /// What rows hold beside their identity, of schemas without spectra.
  const CellTable* cells = nullptr;
  /// Where arrays and their scales are: the group of the table, or (where this is not empty) the
  /// root, along a scale of this name that holds the rows' layers.
  const char* root_scale = "";
};

std::span<const Schema> schemas();
const Schema& schema_of(FileSchema id);

/// 2 of "1.2"; 0 where there is none.
std::int64_t minor_version(std::string_view version);

/// "/matrix", "/imatrix", "/pair": the group of a table's columns.
std::string table_group(const Schema& schema, model::ResultTable table);

/// The columns of `table` in a file about to be written, or in `file` by what it holds.
std::vector<Column> table_columns(const FileDescription& description, model::ResultTable table);
std::vector<Column> table_columns(const Schema& schema, const h5::File& file,
                                  model::ResultTable table);

/// What a later run needs beside the tables (not part of any contract; may change).
std::vector<Column> resume_columns(const Schema& schema);

}  // namespace vindex::results
