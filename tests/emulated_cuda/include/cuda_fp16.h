// binary16 as CUDA's header spells it, rounded to nearest even.
#pragma once

#include <emulated/narrow_float.hpp>

// NOLINTBEGIN: CUDA's names
struct alignas(2) __half {
  unsigned short bits;
  __half() = default;
  explicit __half(float value) : bits(vindex::emulated::half_bits(value)) {}
  explicit operator float() const { return vindex::emulated::half_value(bits); }
};
using half = __half;
struct alignas(4) __half2 {
  __half x, y;
};
using half2 = __half2;
inline __half __float2half(float value) { return __half(value); }
inline __half __float2half_rn(float value) { return __half(value); }
inline __half __double2half(double value) {
  return __half(static_cast<float>(value));  // exact for what kernels here convert: <= 24 bits
}
inline float __half2float(__half value) { return static_cast<float>(value); }
inline unsigned short __half_as_ushort(__half value) { return value.bits; }
inline __half __ushort_as_half(unsigned short bits) {
  __half value;
  value.bits = bits;
  return value;
}
inline __half2 __halves2half2(__half x, __half y) { return {x, y}; }
inline __half2 __floats2half2_rn(float x, float y) { return {__half(x), __half(y)}; }
inline float __low2float(__half2 value) { return static_cast<float>(value.x); }
inline float __high2float(__half2 value) { return static_cast<float>(value.y); }
inline float2 __half22float2(__half2 value) {
  return {static_cast<float>(value.x), static_cast<float>(value.y)};
}
inline __half __hmul(__half x, __half y) {
  return __half(static_cast<float>(x) * static_cast<float>(y));
}
inline __half __hadd(__half x, __half y) {
  return __half(static_cast<float>(x) + static_cast<float>(y));
}
inline __half __hsub(__half x, __half y) {
  return __half(static_cast<float>(x) - static_cast<float>(y));
}
inline __half2 __hmul2(__half2 x, __half2 y) { return {__hmul(x.x, y.x), __hmul(x.y, y.y)}; }
inline __half2 __hadd2(__half2 x, __half2 y) { return {__hadd(x.x, y.x), __hadd(x.y, y.y)}; }
inline __half2 __hsub2(__half2 x, __half2 y) { return {__hsub(x.x, y.x), __hsub(x.y, y.y)}; }
// NOLINTEND
