// Owns a row of /matrix/ or of a derived table as the results layer holds it, without its bulk
// (spectrum, vectors): those stay in a part file or, until published, in memory.
#pragma once

#include <vindex/measure/metrics.hpp>
#include <vindex/results/run_store.hpp>

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace vindex::results {

/// What of a row may weigh megabytes.
struct RowBulk {
  std::vector<double> sigma;
  std::optional<measure::SingularVectors> vectors;
  std::vector<ArrayCell> arrays = {};  ///< ResultRow::arrays
};

/// Where the bulk of a row is: in memory, or in row `row` of file `source` of a SourcePool.
struct BulkPlace {
  std::shared_ptr<const RowBulk> memory;
  std::int32_t source = -1;
  std::int64_t row = -1;  ///< counted over all tables of the file, /matrix/ first
};

/// By measure::Status.
inline constexpr const char* kStatusNames[] = {"measured",    "not_converged", "not_finite",
                                               "unsupported", "failed",        "skipped"};

struct StoredRow {
  // Identity: of the matrix, not of the run.
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
  std::string encoding;
  std::int64_t of_matrix = -1;  ///< as read; the writer finds it anew
  std::int64_t rank = 0;        ///< of a product: its singular values that may differ from zero

  measure::Status status = measure::Status::kSkipped;
  std::string reason;
  std::string error_class;
  std::string method;
  bool escalated = false;
  double sigma_error = std::numeric_limits<double>::quiet_NaN();
  measure::MetricValues values;
  measure::MetricValues nulls;
  std::optional<measure::SignFlipSummary> sign_flip;
  std::optional<measure::SpectrumBounds> bounds;
  bool has_moments = false;
  decode::Moments moments;
  std::optional<measure::SampleAngles> sample;

  std::string other_tensor, other_encoding;  ///< of a pair: those of B
  std::vector<double> cells;                 ///< ResultRow::cells

  std::int64_t sigma_count = 0;   ///< singular values stored; 0: none
  std::int32_t vector_count = 0;  ///< singular vectors stored
  BulkPlace bulk;

  /// Length of a whole spectrum.
  std::int64_t shorter() const { return rank > 0 ? rank : rows < cols ? rows : cols; }
  std::int64_t longer() const { return rows < cols ? cols : rows; }
};

/// Reason of a row that no run has reached yet.
inline constexpr const char* kNotYetMeasured = "not measured yet";

/// Key of a matrix across runs within its table: logical name and slice.
std::string row_key(const std::string& tensor, std::int32_t slice);
inline std::string row_key(const StoredRow& row) { return row_key(row.tensor, row.slice); }

/// True where `a` comes before `b`: by table, and within one by layer, block, role, expert, slice,
/// name (results contract).
bool row_before(const StoredRow& a, const StoredRow& b);

/// The row of a selected matrix before it is measured: status `skipped`.
StoredRow row_of(const model::MatrixRecord& record);

/// Puts the outcome of a measurement into `row`, whose identity stays. The bulk stays in memory.
void set_outcome(StoredRow& row, ResultRow&& result, bool keep_spectrum);

/// How far a row's outcome is to be trusted over another one of the same matrix: more is better.
int outcome_rank(measure::Status status);
/// True where a resumed run need not measure the row again.
bool is_settled(measure::Status status);
/// True for what `matrices_failed` counts.
bool is_failure(measure::Status status);

struct StatusCounts {
  std::int64_t total = 0, measured = 0, not_finite = 0, failed = 0, skipped = 0, escalated = 0;
};

}  // namespace vindex::results
