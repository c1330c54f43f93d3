// Owns which matrices are refused, and which may be measured together.
#pragma once

#include "backend/backend.hpp"

#include <cstdint>

namespace vindex::statistics {

/// True where there is nothing to measure; the report then says why.
bool is_refused(const MatrixInput& input, MatrixReport& report);

/// True where one batch may hold both: the same shape, orientation and encoding.
struct InputKind {
  std::int64_t rows = 0, cols = 0;
  bool transposed = false;
  const decode::Encoding* encoding = nullptr;
};
bool is_same_kind(const InputKind& a, const InputKind& b);
bool is_same_kind(const MatrixInput& a, const MatrixInput& b);

}  // namespace vindex::statistics
