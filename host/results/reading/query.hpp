// Owns reading a results file from outside: what it holds, rows by selection, columns by name,
// spectra, singular vectors, the texts of the run. Files of any minor version of schema 1 are read:
// columns that this version does not know are there by their name, blocks that it does not know are
// `other`.
#pragma once

#include "backend/backend.hpp"
#include "model/selection/selection.hpp"
#include "results/rows/result_row.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace vindex::results {

/// What a column's values are: doubles for both numeric ones, which hold integers exactly below
/// 2^53; a missing integer is NaN.
enum class ValueType : std::uint8_t { kInteger, kReal, kText };

struct ColumnInfo {
  std::string name;
  ValueType type = ValueType::kReal;
  std::size_t width = 1;  ///< values of a row: 1, or 9 for [matrix, k]
  std::string long_name;  ///< empty where the file has none
  std::string units;      ///< "1" for pure numbers; empty for labels and indices
};

/// "var_at_64", "var_at_64_null" for value `i` of a row in `var_at_k`, `var_at_k_null` of that
/// width; "angles_right_1" for the first of another wide column.
std::string element_name(const std::string& column, std::size_t width, std::size_t i);

/// Which rows are selected; what is empty asks for all, and all of it must hold.
struct RowQuery {
  model::Selection selection = {};  ///< with its pattern of names
  std::string tensor = {};          ///< the whole logical name
  std::optional<std::int32_t> slice = {};
};

/// A row as it is identified. `number` is its place in its table, from 0.
struct QueriedRow : RowIdentity {
  std::int64_t number = 0;
  MatrixStatus status = MatrixStatus::kSkipped;
  std::string reason;
  std::int64_t sigma_count = 0;   ///< singular values stored; 0: none
  std::int32_t vector_count = 0;  ///< singular vectors stored
};

/// An open results file. Every function may be called from any thread, also of several files at
/// once; libhdf5 works for one of them at a time. The file as it was opened is read to the end,
/// whatever is published under its name meanwhile.
class ResultsFile {
 public:
  /// Errors: MissingInputError, SystemError; FormatError where it is no results file or damaged,
  /// E-RESULTS-VERSION where it is of a newer major version, E-RESULTS-PART where it is a part of a
  /// run.
  explicit ResultsFile(const std::string& path);
  ResultsFile(ResultsFile&&) noexcept;
  ResultsFile& operator=(ResultsFile&&) noexcept;
  ~ResultsFile();

  const std::string& schema_version() const;
  bool is_complete() const;  ///< false: the run has rows left
  /// A text attribute of the root: "model", "mode", "backend", "title", "history". Errors:
  /// FormatError where it is absent.
  std::string attribute(const std::string& name) const;
  /// JSON of "command", "settings", "inputs", "environment" or "config". Errors: FormatError.
  std::string run_text(const std::string& name) const;

  /// Every tensor of the model, measured or not, in order of name.
  std::vector<TensorEntry> tensors() const;
  /// Tables that are there, /matrix/ first.
  std::vector<model::ResultTable> tables() const;
  /// Columns of `table` by name; datasets of types or shapes that no column of ours has are passed
  /// over.
  std::vector<ColumnInfo> columns(model::ResultTable table = model::ResultTable::kMatrix) const;
  /// Rows that `query` asks for, in the file's order.
  std::vector<QueriedRow> rows(model::ResultTable table = model::ResultTable::kMatrix,
                               const RowQuery& query = {}) const;

  /// Column `name` of `table` for the rows `numbers`: numbers.size() x width, row-major. Errors:
  /// UsageError E-COLUMN where there is no such column of numbers, E-ROW where there is no such
  /// row.
  std::vector<double> numbers(const std::string& name, std::span<const std::int64_t> numbers,
                              model::ResultTable table = model::ResultTable::kMatrix) const;
  /// The same of a column of texts.
  std::vector<std::string> texts(const std::string& name, std::span<const std::int64_t> numbers,
                                 model::ResultTable table = model::ResultTable::kMatrix) const;
  /// Singular values of a row, descending; empty where none are stored (fast mode: the first 64).
  /// Errors: UsageError E-ROW.
  std::vector<double> sigma(std::int64_t number,
                            model::ResultTable table = model::ResultTable::kMatrix) const;
  /// Singular vectors of a row; nothing where none are stored.
  std::optional<SingularVectors> vectors(
      std::int64_t number, model::ResultTable table = model::ResultTable::kMatrix) const;

 private:
  struct Open;
  std::unique_ptr<Open> open_;
};

}  // namespace vindex::results
