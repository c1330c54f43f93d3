// Owns the way to the CPU back end.
#pragma once

#include "backend/backend.hpp"
#include "cpu/simd/matrix_unit.hpp"

#include <cstdint>
#include <memory>
#include <string_view>

namespace vindex::cpu {

/// The CPU back end with `threads` concurrent calls (0: every core this process may use). Loads
/// OpenBLAS with the kernels `blas_core` (empty: the processor's best) and its errors, see
/// blas/blas_library.hpp. Gram matrices are multiplied by the processor's matrix unit where it has
/// one that the system grants and `unit` wants; info() says which.
std::unique_ptr<Backend> make_cpu_backend(std::int32_t threads, std::string_view blas_core = {},
                                          MatrixUnitPreference unit = MatrixUnitPreference::kBest);

/// The same with the matrix unit `tiles`, called `name` in info(): for tests of the routes through
/// one on processors that have none.
std::unique_ptr<Backend> make_cpu_backend_on(TileProduct tiles, std::string_view name,
                                             std::int32_t threads);

/// The same without a unit, where gram_bf16() multiplies what it takes by vector instructions as it
/// does on AMD's processors: for tests of that route on others. Portable code with the same sums
/// stands in for instructions that are missing.
std::unique_ptr<Backend> make_cpu_backend_by_vectors(std::int32_t threads);

}  // namespace vindex::cpu
