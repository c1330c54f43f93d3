// Owns where the tables of a results file lie: /matrix/ with /spectra/, /vectors/ and /resume/ at
// the root, and every derived table as a group with the same things inside it.
//
//   /matrix/  /spectra/p<p>/  /vectors/...  /resume/
//   /imatrix/ /imatrix/spectra/p<p>/  /imatrix/vectors/...  /resume/imatrix/
#pragma once

#include "stored_row.hpp"

#include <vindex/model/model_index.hpp>

#include <array>
#include <span>
#include <string>

namespace vindex::results {

inline constexpr std::array<model::ResultTable, model::kResultTables> kTables = {
    model::ResultTable::kMatrix, model::ResultTable::kImatrix, model::ResultTable::kProduct};

inline bool is_derived(model::ResultTable table) { return table != model::ResultTable::kMatrix; }

/// "/matrix", "/imatrix": the group of a table's columns.
std::string table_group(model::ResultTable table);
/// What stands before "/spectra" and "/vectors" of a table: nothing, or its group.
std::string bulk_prefix(model::ResultTable table);
/// "/resume", "/resume/imatrix".
std::string resume_group(model::ResultTable table);

/// Whether spectra of `table` in a file of `fast` mode are its largest 64 values; products are
/// always whole.
inline bool has_top_only(model::ResultTable table, bool fast) {
  return fast && table != model::ResultTable::kProduct;
}

/// The rows of `table` among `rows`, which are sorted by table.
std::span<const StoredRow* const> rows_of(std::span<const StoredRow* const> rows,
                                          model::ResultTable table);

}  // namespace vindex::results
