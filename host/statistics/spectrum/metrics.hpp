// Owns the metrics (metrics contract, version 2): one definition each, computed on the host from
// singular values and moments.
#pragma once

#include "metric_table.hpp"

#include "backend/backend.hpp"

#include <cstdint>
#include <span>
#include <string>

namespace vindex::statistics {

/// Metrics of a rows x cols matrix from its report; all NaN unless its status is measured.
///
/// Adds to `reason` (after "; " where it holds a text already) why values are NaN: "zero matrix"
/// (norms, sigma, ranks are 0), "one singular value", "zero singular value" and "sigma_min within
/// its error" (condition_number, trace_log), "tail not reliable", "fast mode: no tail", "no tail to
/// fit" (hill_alpha, pl_*: sigma_error decides which values are a tail);
/// "exact low rank: theta is 90" where it is that for want of any noise.
/// Fast mode gives spectral_norm, frobenius_norm, sigma_ratio_1_2, stable_rank, the checks and
/// var_at_k as far as the 64 values or k >= p decide it; all else is NaN, for a short side below 64
/// too.
///
/// Cost: 0.2 ms for p = 2048, 0.7 ms for p = 7168 on one core (noise, EPYC at 2.6 GHz).
/// Errors: expects() on a report whose sigma has not min(rows, cols) values (fast: 64 at most).
MetricValues derive_metrics(std::int64_t rows, std::int64_t cols, const MatrixReport& report,
                            SpectrumMode mode, std::string& reason);

/// What of a drawn spectrum (`sigma` descending, of p x n) has a null; the rest is NaN.
MetricValues metrics_of_draw(std::int64_t n, std::span<const double> sigma);

}  // namespace vindex::statistics
