// Owns the one macro of the project and the few helpers that g++, clang and nvcc must all accept in
// code that is compiled for host and device. Everything else in the tree is free of conditional
// compilation.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define VINDEX_HD __host__ __device__
#else
#define VINDEX_HD
#endif

namespace vindex {

/// The bits of `from` as a `To` of the same size. std::bit_cast is not callable in device code.
template <typename To, typename From>
VINDEX_HD constexpr To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  return __builtin_bit_cast(To, from);
}

}  // namespace vindex
