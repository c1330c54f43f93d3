// Owns a row of /matrix/ or of a derived table as the results layer holds it, without its bulk
// (spectrum, vectors): those stay in a part file or, until published, in memory.
#pragma once

#include "result_row.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace vindex::results {

/// Where the bulk of a row is: in memory, or in row `row` of file `source` of a SourcePool.
struct BulkPlace {
  std::shared_ptr<const RowBulk> memory;
  std::int32_t source = -1;
  std::int64_t row = -1;  ///< counted over all tables of the file, /matrix/ first
};

struct StoredRow : RowIdentity, RowOutcome {
  std::int64_t of_matrix = -1;               ///< as read; the writer finds it anew
  std::string other_tensor, other_encoding;  ///< of a pair: those of B
  std::int64_t sigma_count = 0;              ///< singular values stored; 0: none
  std::int32_t vector_count = 0;             ///< singular vectors stored
  BulkPlace bulk;
};

/// Reason of a row that no run has reached yet.
inline constexpr const char* kNotYetMeasured = "not measured yet";

/// Key of a matrix across runs within its table: logical name and slice.
std::string row_key(const std::string& tensor, std::int32_t slice);
inline std::string row_key(const RowIdentity& row) { return row_key(row.tensor, row.slice); }

/// The same for messages: printable(), without a slice where there is none.
std::string row_name(const RowIdentity& row);

/// True where `a` comes before `b`: by table, and within one by layer, block, role, expert, slice,
/// name (results contract).
bool row_before(const RowIdentity& a, const RowIdentity& b);

/// The row of a selected matrix before it is measured: status `skipped`.
StoredRow row_of(const model::MatrixRecord& record);

/// Puts the outcome of a measurement into `row`, whose identity stays. The bulk stays in memory.
/// Rows that are not measured have numbers and arrays only with `keep_numbers`.
void set_outcome(StoredRow& row, ResultRow&& result, bool keep_spectrum, bool keep_numbers);

/// How far a row's outcome is to be trusted over another one of the same matrix: more is better.
int outcome_rank(MatrixStatus status);
/// True where a resumed run need not measure the row again.
bool is_settled(MatrixStatus status);
/// True for what `matrices_failed` counts.
bool is_failure(MatrixStatus status);

// Where the tables of a results file lie: /matrix/ with /spectra/, /vectors/ and /resume/ at the
// root, and every derived table as a group with the same things inside it.
//
//   /matrix/  /spectra/p<p>/  /vectors/...  /resume/
//   /imatrix/ /imatrix/spectra/p<p>/  /imatrix/vectors/...  /resume/imatrix/

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

/// Of rows of which some were drawn: matrices of the model in the groups that there are rows of,
/// those that were left out among them; else 0.
std::int64_t drawn_from(std::span<const StoredRow* const> rows);

/// "p2048", "p2048_top64": the group of a row's spectrum under its table's spectra.
std::string spectrum_group(const StoredRow& row, bool fast);

struct StatusCounts {
  std::int64_t total = 0, measured = 0, not_finite = 0, failed = 0, skipped = 0, escalated = 0;
};
StatusCounts count_statuses(std::span<const StoredRow* const> rows);

}  // namespace vindex::results
