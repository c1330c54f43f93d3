// Owns the record that passes from a run to the results file: identity, metrics, nulls, spectrum
// and moments of one measured (or not measurable) matrix.
#pragma once

#include <vindex/measure/metrics.hpp>
#include <vindex/measure/sample_angles.hpp>
#include <vindex/model/model_index.hpp>
#include <vindex/results/array_cell.hpp>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace vindex::results {

/// One finished row of a results file, whatever its schema: of spectra, metrics and the rest below;
/// of every other schema, cells. `index` is its position in RunDescription::matrices.
struct ResultRow {
  std::int64_t index = 0;
  measure::Status status = measure::Status::kSkipped;
  std::string reason;
  /// For failed/unsupported: "65", "69", "74", "70": what the run's exit code becomes.
  std::string error_class;
  std::string method;
  bool escalated = false;
  double sigma_error = std::numeric_limits<double>::quiet_NaN();  ///< of any value of `sigma`
  measure::MetricValues values;
  measure::MetricValues nulls;
  std::optional<measure::SignFlipSummary> sign_flip;  ///< with --null signflip
  std::optional<measure::SpectrumBounds> bounds;      ///< fast mode
  std::vector<double> sigma;                          ///< empty if not measured
  std::optional<measure::SingularVectors> vectors;
  decode::Moments moments;
  std::optional<measure::SampleAngles> sample;  ///< with RunDescription::sampled
  std::vector<double> cells;  ///< numbers of a schema whose columns are cells, in their order
  /// Of a schema with array columns (CellTable::arrays), in their order; empty: NaN in all of them.
  std::vector<ArrayCell> arrays = {};
};

}  // namespace vindex::results
