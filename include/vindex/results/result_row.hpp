// Owns what a row of a results file is, whatever its schema: its identity, its outcome with all
// numbers as cells, and its bulk.
#pragma once

#include <vindex/measure/backend.hpp>
#include <vindex/model/model_index.hpp>
#include <vindex/results/array_cell.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace vindex::results {

/// Which row it is: of the model, not of the run. Names are printable().
struct RowIdentity {
  model::ResultTable table = model::ResultTable::kMatrix;
  std::string tensor;
  std::int32_t slice = -1;
  std::int32_t layer = -1;
  std::int32_t expert = -1;
  model::Block block = model::Block::kOther;
  std::string role;
  std::string shard;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t rank = 0;  ///< of a product: its singular values that may differ from zero
  std::string encoding;

  /// Length of a whole spectrum.
  std::int64_t shorter() const { return rank > 0 ? rank : rows < cols ? rows : cols; }
  std::int64_t longer() const { return rows < cols ? cols : rows; }
};

/// By measure::Status.
inline constexpr const char* kStatusNames[] = {"measured",    "not_converged", "not_finite",
                                               "unsupported", "failed",        "skipped"};

/// How a row ended.
struct RowOutcome {
  measure::Status status = measure::Status::kSkipped;
  std::string reason;
  /// For failed/unsupported: "65", "69", "74", "70": what the run's exit code becomes.
  std::string error_class;
  std::string method;
  bool escalated = false;
  /// Every number of the row, as its schema's CellTable places them; NaN: none. What is beyond the
  /// end is NaN.
  std::vector<double> cells;

  double cell(std::size_t number) const {
    return number < cells.size() ? cells[number] : std::numeric_limits<double>::quiet_NaN();
  }
};

/// What of a row may weigh megabytes.
struct RowBulk {
  std::vector<double> sigma;  ///< empty if not measured
  std::optional<measure::SingularVectors> vectors;
  /// Of a schema with array columns (CellTable::arrays), in their order; empty: NaN in all of them.
  std::vector<ArrayCell> arrays = {};
};

/// One finished row as a job hands it over. `index` is its position in RunDescription::matrices.
struct ResultRow : RowOutcome, RowBulk {
  std::int64_t index = 0;
};

}  // namespace vindex::results
