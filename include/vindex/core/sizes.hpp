// Owns conversions of a count from std::int64_t, the type of every dimension here, to what a
// library takes. The caller knows that the value fits: dimensions are checked where they are read.
#pragma once

#include <cstddef>
#include <cstdint>

namespace vindex {

/// For BLAS and LAPACK with 32-bit integers.
constexpr int as_int(std::int64_t value) { return static_cast<int>(value); }

/// For the standard library's containers.
constexpr std::size_t as_size(std::int64_t value) { return static_cast<std::size_t>(value); }

}  // namespace vindex
