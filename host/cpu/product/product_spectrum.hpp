// Owns the spectrum of a product of factors that is never formed: its singular values are those of
// a small core, left when every factor from the outside in is replaced by its triangle. Float64
// throughout, on the host.
//
//   A B, A m x r = Q_a R, B r x n = L Q_b:   sigma(A B) = sigma(R L), r x r
#pragma once

#include "backend/backend.hpp"
#include "statistics/spectrum/metric_table.hpp"

#include <cstdint>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

namespace vindex::cpu {

/// A dense factor, row-major.
struct Factor {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::vector<double> values;
};

/// What may stand for a leftmost factor: where it has more rows than columns its triangle R
/// (cols x cols, R^T R = F^T F), else itself. The product keeps its singular values. Source: LAPACK
/// dgelqf on the transposed reading. Errors: Stopped.
Factor reduced_left(Factor factor, const std::stop_token& stop = {});

/// The same for a rightmost factor: L (rows x rows, L L^T = F F^T) where it has more columns.
Factor reduced_right(Factor factor, const std::stop_token& stop = {});

/// The least side of a chain: its product has that many singular values that may differ from zero.
/// `sides` are rows of the first factor, then the columns of every factor.
std::int64_t product_rank(std::span<const std::int64_t> sides);

/// Singular values of scale * chain[0] * chain[1] * ..., product_rank() of them, descending; the
/// other min(rows, cols) - rank values of the product are exactly zero. `moments.sum_squares` is
/// the squared norm of the product (of the core, not of the values); no other moment is known
/// without the product and all stay as they are made. check_trace compares the two. MatrixStatus
/// kNotFinite where a weight is not finite or the product overflows; kNotConverged. Errors:
/// expects() on sides that do not fit; Stopped.
/// Accuracy: product_error().
MatrixReport product_spectrum(std::span<const Factor* const> chain, double scale,
                              const std::stop_token& stop = {});

/// Bound of the absolute error of every value: 50 rank eps64 times the product of (bounds of) the
/// factors' norms. It is relative to the factors and not to s_1: where they cancel, that much is
/// lost.
double product_error(std::span<const Factor* const> chain, double scale);

/// Metrics of a product rows x cols from its report: those of derive_metrics() over the values that
/// may differ from zero, `rank` in the place of min(rows, cols) and max(rows, cols) as the long
/// side. mp_* are NaN: Marchenko-Pastur is not the law of a product.
statistics::MetricValues derive_product_metrics(std::int64_t rows, std::int64_t cols,
                                                std::int64_t rank, const MatrixReport& report,
                                                std::string& reason);

}  // namespace vindex::cpu
