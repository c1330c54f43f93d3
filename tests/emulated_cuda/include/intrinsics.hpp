// The twin of kernels/ptx/intrinsics.hpp for the CPU: the same functions, their meaning written out
// (tensor_core.cpp holds the products). What each does is said there.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <emulated/execution.hpp>
#include <source_location>

namespace vindex::emulated {

// A lane's share of a warp-wide product or load, with the results written back.
void mma_f16(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
             std::source_location where);
void mma_bf16(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
              std::source_location where);
void mma_tf32(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
              std::source_location where);
void mma_s8(std::int32_t (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
            std::source_location where);
void mma_f64(double (&d)[2], double a, double b, std::source_location where);
void load_matrix_x4(std::uint32_t (&r)[4], const void* row, bool transposed,
                    std::source_location where);

/// One thread's share of a warpgroup product: two lines of A by 32 columns of B, 16 binary16 or
/// bfloat16 numbers each, to d[4 j + 2 line + i] for column 2 j + i; added up as mma_f16 adds.
void add_warpgroup_products(float (&d)[64], const std::uint16_t (&a)[2][16],
                            const std::uint16_t (&b)[32][16], bool bfloat16);

/// How mma_f16, mma_bf16 and mma_tf32 add up.
enum class Accumulation {
  kTruncating,  ///< as Hopper's tensor cores: terms cut to 25 fractional bits of the largest
  kExact,       ///< one rounding to nearest per product step: what the cut costs is the difference
};
void set_accumulation(Accumulation accumulation);

}  // namespace vindex::emulated

namespace vindex::kernels::device {

inline unsigned char* dynamic_shared() { return emulated::shared_memory(); }

template <typename Real>
void store_shared_if(Real* pointer, Real value, bool store) {
  if (store) {
    *pointer = value;
  }
}
inline std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}
template <int Bytes, typename Real>
void load_shared(Real& value, int address) {
  value = *reinterpret_cast<const Real*>(emulated::shared_memory() + address + Bytes);
}
template <int Bytes, typename Real>
void store_shared(Real value, int address) {
  *reinterpret_cast<Real*>(emulated::shared_memory() + address + Bytes) = value;
}
template <int Bytes, typename Real>
void store_shared_if(Real value, int address, bool store) {
  if (store) {
    store_shared<Bytes>(value, address);
  }
}
inline void meet(int id, int threads,
                 std::source_location where = std::source_location::current()) {
  emulated::named_barrier(id, threads, true, where);
}

struct Patience {
  long long cycles = 0;  ///< not used: what never comes is found as soon as nobody else can go on
  void* report = nullptr;
};
void publish_in_block(int* flag, int value, int lane,
                      std::source_location where = std::source_location::current());
void publish_on_device(int* flag, int value, int lane,
                       std::source_location where = std::source_location::current());
void await_in_block(const int* flag, int least, const Patience& patience, std::uint32_t code,
                    std::source_location where = std::source_location::current());
int await_on_device(const int* flag, int least, const Patience& patience, std::uint32_t code,
                    std::source_location where = std::source_location::current());

/// As the device: the upper half of a number, 20 bits behind the point, is all that it reads and
/// all that it writes.
inline double rough(double exact) {
  return std::bit_cast<double>(std::bit_cast<std::uint64_t>(exact) & 0xFFFFFFFF00000000U);
}
inline double rough_reciprocal(double value) { return rough(1.0 / rough(value)); }
inline double rough_inverse_root(double value) { return rough(1.0 / std::sqrt(rough(value))); }
/// The same of float32: the last bits lost, and one unit more.
inline float rough(float exact) {
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(exact) & 0xFFFFFFFEU) - 2U);
}
inline float rough_reciprocal(float value) { return rough(1.0F / value); }
inline float rough_inverse_root(float value) { return rough(1.0F / std::sqrt(value)); }
inline void keep_in_register(int& /*value*/) {}

void copy_async_16(void* shared, const void* global,
                   std::source_location where = std::source_location::current());
void copy_async_16_or_zero(void* shared, const void* global, bool copy,
                           std::source_location where = std::source_location::current());
inline void copy_async_commit() { emulated::commit_copies(); }
template <int Pending>
void copy_async_wait() {
  static_assert(Pending >= 0);
  emulated::wait_copies(Pending);
}

inline void store_streaming_16(float* global, const float (&values)[4]) {
  std::copy(values, values + 4, global);
}
inline int warp_of_block() {
  return __shfl_sync(0xffffffffU, static_cast<int>(threadIdx.x) / 32, 0);
}

inline void mma_f16(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                    std::source_location where = std::source_location::current()) {
  emulated::mma_f16(d, a, b, where);
}
inline void mma_f16_fresh(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                          std::source_location where = std::source_location::current()) {
  std::fill(d, d + 4, 0.0F);
  emulated::mma_f16(d, a, b, where);
}
inline void mma_bf16(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                     std::source_location where = std::source_location::current()) {
  emulated::mma_bf16(d, a, b, where);
}
inline void mma_tf32(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                     std::source_location where = std::source_location::current()) {
  emulated::mma_tf32(d, a, b, where);
}
inline void mma_s8(std::int32_t (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                   std::source_location where = std::source_location::current()) {
  emulated::mma_s8(d, a, b, where);
}
inline void mma_f64(double (&d)[2], double a, double b,
                    std::source_location where = std::source_location::current()) {
  emulated::mma_f64(d, a, b, where);
}
inline void mma_f64_m16n8k8(double (&d)[4], const double (&a)[4], const double (&b)[2],
                            std::source_location where = std::source_location::current()) {
  // The fragments of m16n8k8 are those of its m8n8k4 quarters.
  for (int half = 0; half < 2; ++half) {
    double rows[2] = {d[2 * half], d[2 * half + 1]};
    emulated::mma_f64(rows, a[half], b[0], where);
    emulated::mma_f64(rows, a[2 + half], b[1], where);
    d[2 * half] = rows[0];
    d[2 * half + 1] = rows[1];
  }
}
inline void load_matrix_x4(std::uint32_t (&r)[4], const void* row_in_shared,
                           std::source_location where = std::source_location::current()) {
  emulated::load_matrix_x4(r, row_in_shared, false, where);
}
inline void load_matrix_x4_transposed(
    std::uint32_t (&r)[4], const void* row_in_shared,
    std::source_location where = std::source_location::current()) {
  emulated::load_matrix_x4(r, row_in_shared, true, where);
}

std::uint32_t to_half_pair(float low, float high);
std::uint32_t to_bfloat_pair(float low, float high);
std::uint32_t e4m3_pair_to_half(std::uint32_t codes);
float low_half(std::uint32_t pair);
float high_half(std::uint32_t pair);
inline std::uint32_t bytes_of_signs(std::uint32_t word) {
  return (word >> 7U & 0x01010101U) * 255U;
}

}  // namespace vindex::kernels::device
