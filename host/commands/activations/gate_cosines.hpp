// Owns the similarity of the rows of a gate projection: neighbours, and all pairs.
#pragma once

#include "backend/backend.hpp"
#include "model/transformer/features.hpp"

#include <cstdint>
#include <limits>
#include <stop_token>

namespace vindex::commands {

struct GateCosines {
  double adjacent = std::numeric_limits<double>::quiet_NaN();       ///< mean over f of cos(f, f+1)
  double mean_absolute = std::numeric_limits<double>::quiet_NaN();  ///< over all pairs of rows
  std::int64_t rows = 0;
  std::int64_t zero_rows = 0;  ///< in no pair
  bool is_finite = true;       ///< else no number
};

/// Of the logical rows `rows` of `gate`, products by `backend` in tiles with `threads` threads
/// where that is the host. The mean absolute cosine is of float32 rows of norm 1: 1e-7 off at most
/// by that. Errors: those of the input, OutOfMemory, DeviceError.
GateCosines gate_cosines(MatrixInput& gate, const model::FeatureRows& rows, Backend& backend,
                         std::int32_t threads, const std::stop_token& stop = {});

/// Memory that it takes for `rows` rows of `width`, of a matrix stored in rows of `stored_cols`.
std::uint64_t gate_cosines_memory(std::int64_t rows, std::int64_t width, std::int64_t stored_cols,
                                  const Backend& backend, std::int32_t threads);

}  // namespace vindex::commands
