// Owns which numbers a row of a file of spectra holds (schema vindex-results) and the way between
// them and the row's cells.
#pragma once

#include "results/rows/result_row.hpp"
#include "results/schema/cell_table.hpp"
#include "statistics/null/sign_flip_null.hpp"
#include "statistics/scales/scale_figures.hpp"
#include "statistics/spectrum/metric_table.hpp"
#include "statistics/spectrum/sample_angles.hpp"

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace vindex::commands {

inline constexpr std::size_t kMomentCount = 10;
inline constexpr std::size_t kSampleCount = 6;
inline constexpr std::size_t kScaleCount = 9;

/// All numbers of a row of /matrix/, /imatrix/ or /product/ and of its /resume/; NaN: none. They
/// are doubles and nothing else, so the row's cells are these in this order; what most files have
/// none of comes last and takes no memory there.
struct SpectrumNumbers {
  statistics::MetricValues values;
  statistics::MetricValues nulls;
  double sigma_error = std::numeric_limits<double>::quiet_NaN();  ///< of any singular value
  std::array<double, kMomentCount> moments;
  std::array<double, kSampleCount> sample;                            ///< as sample_columns()
  std::array<double, kScaleCount> scales;                             ///< as scale_columns()
  std::array<double, kVarAtK.size()> var_at_k_lower, var_at_k_upper;  ///< fast mode
  double stable_rank_lower = std::numeric_limits<double>::quiet_NaN();
  double stable_rank_upper = std::numeric_limits<double>::quiet_NaN();
  statistics::SignFlipSummary sign_flip;  ///< with --null signflip

  SpectrumNumbers();  ///< all NaN
  /// NaN where nothing was decoded.
  void set_moments(const decode::Moments& moments);
  void set_bounds(const SpectrumBounds& bounds);
  void set_sample(const statistics::SampleAngles& angles);
  void set_scales(const statistics::ScaleFigures& figures);
};

/// The cells of a row, without the NaN at their end.
std::vector<double> spectra_cells(const SpectrumNumbers& numbers);
SpectrumNumbers spectrum_numbers(const std::vector<double>& cells);

/// One of the values, or of the nulls, of a row of spectra.
double metric_of(const results::RowOutcome& row, statistics::Metric metric);
double var_at_k_of(const results::RowOutcome& row, std::size_t place);
double var_at_k_null_of(const results::RowOutcome& row, std::size_t place);
/// Nothing where no weight was decoded.
std::optional<decode::Moments> moments_of(const results::RowOutcome& row);
/// NaN where the run took no samples or an earlier version measured the row.
statistics::ScaleFigures scales_of(const results::RowOutcome& row);

/// Groups of columns: "fast", "signflip", "spread", ...; the places of its columns are those of
/// SpectrumNumbers.
const results::CellTable& spectra_table();

}  // namespace vindex::commands
