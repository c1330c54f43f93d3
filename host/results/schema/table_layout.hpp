// Owns what decides which columns a table of a file has: its kind, its version, what the run was
// asked for.
#pragma once

#include "file_description.hpp"
#include "schema.hpp"

#include "results/hdf5/hdf5.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vindex::results {

/// 2 of "1.2"; 0 where there is none.
std::int64_t minor_version(std::string_view version);

/// What decides which columns a table of a file has.
struct TableLayout {
  /// Names of groups, and of optional columns, that are there.
  std::vector<std::string> groups = {};
  std::size_t scale_length = 0;  ///< values of the scale that the run chooses
  std::int64_t minor = 0;        ///< version of the file
  bool has(std::string_view group) const;
};
/// The groups that follow from the table and the mode, of files with spectra.
void add_structural_groups(model::ResultTable table, bool fast, TableLayout& layout);
/// The dataset that lists the optional columns which a file has.
inline constexpr const char* kOptionalColumns = "/resume/optional_columns";
/// None where the file has none. Errors: FormatError.
std::vector<std::string> optional_columns_in(const h5::File& file);

/// Of `table` in a file about to be written, or in `file` by what it holds.
TableLayout table_layout(const FileDescription& description, model::ResultTable table);
TableLayout table_layout(const Schema& schema, const h5::File& file, model::ResultTable table);

}  // namespace vindex::results
