// Owns the vector types and dimensions of CUDA C++, and the words that mean nothing to g++.
#pragma once

#include <cstdint>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __constant__
#define __align__(bytes) alignas(bytes)
// __shared__ is left undefined: kernels take shared memory from device::dynamic_shared() alone.

// NOLINTBEGIN: names and shapes are CUDA's
#define VINDEX_EMULATED_VECTORS(base, type, alignment2, alignment4)           \
  struct base##1 {                                                            \
    type x;                                                                   \
  };                                                                          \
  struct alignas(alignment2) base##2 {                                        \
    type x, y;                                                                \
  };                                                                          \
  struct base##3 {                                                            \
    type x, y, z;                                                             \
  };                                                                          \
  struct alignas(alignment4) base##4 {                                        \
    type x, y, z, w;                                                          \
  };                                                                          \
  inline base##2 make_##base##2(type x, type y) { return {x, y}; }            \
  inline base##3 make_##base##3(type x, type y, type z) { return {x, y, z}; } \
  inline base##4 make_##base##4(type x, type y, type z, type w) { return {x, y, z, w}; }
VINDEX_EMULATED_VECTORS(char, signed char, 2, 4)
VINDEX_EMULATED_VECTORS(uchar, unsigned char, 2, 4)
VINDEX_EMULATED_VECTORS(short, short, 4, 8)
VINDEX_EMULATED_VECTORS(ushort, unsigned short, 4, 8)
VINDEX_EMULATED_VECTORS(int, int, 8, 16)
VINDEX_EMULATED_VECTORS(uint, unsigned int, 8, 16)
VINDEX_EMULATED_VECTORS(longlong, long long, 16, 16)
VINDEX_EMULATED_VECTORS(ulonglong, unsigned long long, 16, 16)
VINDEX_EMULATED_VECTORS(float, float, 8, 16)
VINDEX_EMULATED_VECTORS(double, double, 16, 16)
#undef VINDEX_EMULATED_VECTORS

struct dim3 {
  unsigned int x = 1, y = 1, z = 1;
  constexpr dim3(unsigned int x_ = 1, unsigned int y_ = 1, unsigned int z_ = 1)
      : x(x_), y(y_), z(z_) {}
};
// NOLINTEND
