// Owns the choice of a route: shape, mode, encoding and memory in, a plan out. Pure; prints
// nothing, allocates nothing.
#pragma once

#include "backend/backend.hpp"
#include "cpu/gram/simd_gram_bf16.hpp"
#include "cpu/plan/svd_plan.hpp"
#include "cpu/simd/matrix_unit.hpp"

#include <cstdint>

namespace vindex::cpu {

struct SvdPlanRequest {
  std::int64_t rows = 0;  ///< as stored
  std::int64_t cols = 0;
  const decode::Encoding* encoding = nullptr;
  MeasureOptions options = {};
  bool in_memory = true;
  std::uint64_t workspace_limit = 0;           ///< bytes, 0: free
  TileProduct tiles = nullptr;                 ///< of the matrix unit, if one is to be used
  bool bf16_by_vectors = gram_bf16_is_fast();  ///< where no unit is used
};

/// The plan for one matrix.
/// Errors: UsageError E-SVD-ROUTE for an options.svd_route other than auto, library, qr and proof;
/// OutOfMemory where even the least workspace exceeds workspace_limit.
SvdPlan plan_svd(const SvdPlanRequest& request);

}  // namespace vindex::cpu
