// Owns what a row of a results file is, whatever its schema: its identity, its outcome with all
// numbers as cells, arrays beside its numbers, and its bulk; and a row of /tensor/ before its
// statistics.
#pragma once

#include "backend/backend.hpp"
#include "model/model_index.hpp"
#include "statistics/scales/scale_figures.hpp"
#include "statistics/spectrum/sample_angles.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace vindex::results {

/// Values of one array column of one row, row-major, of the type that the column declares; both
/// empty: NaN everywhere. Smaller rows (fewer experts than the file's most) are padded with NaN by
/// their maker: padded_array().
struct ArrayCell {
  std::vector<float> floats = {};
  std::vector<double> doubles = {};

  ArrayCell() = default;
  explicit ArrayCell(std::vector<float> values) : floats(std::move(values)) {}
  explicit ArrayCell(std::vector<double> values) : doubles(std::move(values)) {}
  bool empty() const { return floats.empty() && doubles.empty(); }
  std::uint64_t bytes() const {
    return floats.size() * sizeof(float) + doubles.size() * sizeof(double);
  }
};

/// `values` (rows x cols) as the upper left corner of wide_rows x wide_cols, NaN beside it. A row
/// vector has rows = wide_rows = 1.
template <typename T>
std::vector<T> padded_array(const std::vector<T>& values, std::size_t rows, std::size_t cols,
                            std::size_t wide_rows, std::size_t wide_cols);

extern template std::vector<float> padded_array(const std::vector<float>&, std::size_t, std::size_t,
                                                std::size_t, std::size_t);
extern template std::vector<double> padded_array(const std::vector<double>&, std::size_t,
                                                 std::size_t, std::size_t, std::size_t);

/// A scale of array columns: its values, int64 where integers, else float64.
struct ScaleValues {
  std::vector<std::int64_t> integers = {};
  std::vector<double> doubles = {};

  ScaleValues() = default;
  explicit ScaleValues(std::vector<std::int64_t> values) : integers(std::move(values)) {}
  explicit ScaleValues(std::vector<double> values) : doubles(std::move(values)) {}
  /// 0 .. count-1: experts.
  static ScaleValues counted(std::int64_t count);
  std::size_t size() const { return integers.empty() ? doubles.size() : integers.size(); }
};

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
  /// Its place in the draw of its (layer, block, role), and of how many; -1: of no draw.
  std::int32_t draw = -1, draw_of = -1;

  /// Length of a whole spectrum.
  std::int64_t shorter() const { return rank > 0 ? rank : rows < cols ? rows : cols; }
  std::int64_t longer() const { return rows < cols ? cols : rows; }
};

/// By MatrixStatus.
inline constexpr const char* kStatusNames[] = {"measured",    "not_converged", "not_finite",
                                               "unsupported", "failed",        "skipped"};

/// How a row ended.
struct RowOutcome {
  MatrixStatus status = MatrixStatus::kSkipped;
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
  std::optional<SingularVectors> vectors;
  /// Of a schema with array columns (CellTable::arrays), in their order; empty: NaN in all of them.
  std::vector<ArrayCell> arrays = {};
};

/// One finished row as a job hands it over. `index` is its position in RunDescription::matrices.
struct ResultRow : RowOutcome, RowBulk {
  std::int64_t index = 0;
};

/// The factors that blocks of a float8 tensor are multiplied by.
struct BlockScales {
  std::int64_t count = 0;  ///< 0: it has none, or they cannot be read
  double mean = std::numeric_limits<double>::quiet_NaN();
  double cv = std::numeric_limits<double>::quiet_NaN();  ///< population deviation over the mean
};

struct TensorEntry {
  std::string name, stored, block, role, shape, encoding, reason;
  std::int32_t layer = -1;
  std::int64_t count = 0;
  bool in_matrix = false;
  std::string organ_class = {};          ///< empty where the run took no samples
  statistics::SampleAngles angles = {};  ///< of a 1-D tensor; count 0 where there are none
  statistics::ScaleFigures scales = {};  ///< of a 1-D tensor, as far as it has any
  std::string scales_missing = {};       ///< why one of those is NaN
  BlockScales block_scales = {};
};

}  // namespace vindex::results
