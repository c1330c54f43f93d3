// Owns how activations of a layer become a row of their statistics (activations_cells.hpp), beside
// their nulls. They are read twice.
#pragma once

#include "backend/backend.hpp"
#include "results/rows/result_row.hpp"
#include "statistics/activations/activation_nulls.hpp"
#include "statistics/activations/activation_statistics.hpp"
#include "statistics/null/nulls.hpp"
#include "statistics/spectrum/metrics.hpp"

#include <cstdint>
#include <stop_token>

namespace vindex::engine {

/// What effective_rank is computed with.
struct CovarianceTools {
  Backend& backend;
  statistics::NullCache& nulls;
  std::int32_t threads = 1;
};

/// Adds the statistics of `values` [tokens, neurons] to `row`, whose cells are empty ones of
/// kActivationsTable; `law`: of the null; `covariance` null: no effective_rank is asked for. A row
/// of values that are not finite gets that status. Errors: those of the input, OutOfMemory,
/// DeviceError, Stopped.
void add_activations(MatrixInput& values, statistics::ActivationLaw law,
                     const CovarianceTools* covariance, const std::stop_token& stop,
                     results::ResultRow& row);

/// Rows of a slab of such values that are summed together: slabs of row_slabs.hpp are multiples.
std::int64_t activations_step(const decode::Encoding& encoding, std::int64_t cols);

/// What add_activations() holds beside its input and slabs of it.
std::uint64_t activations_row_bytes(std::int64_t tokens, std::int64_t neurons,
                                    const CovarianceTools* covariance);

}  // namespace vindex::engine
