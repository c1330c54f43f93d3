// Owns every piece of inline PTX of the project: tensor-core products, asynchronous copies and what
// else CUDA C++ has no name for. Its twin tests/emulated_cuda/include/intrinsics.hpp gives the same
// functions in plain C++, so kernels include it as <intrinsics.hpp> and are tested on the CPU.
// Source: PTX ISA 9.0, sections "Memory Consistency Model", "ld", "st", "cp.async", "ldmatrix",
// "mma", "rcp.approx.ftz.f64", "rsqrt.approx.ftz.f64", "rcp", "rsqrt", "cvt",
// "mul.f16x2".
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace vindex::kernels::device {

/// The block's dynamic shared memory, aligned to 1024 bytes (what the widest swizzle wants).
__device__ inline unsigned char* dynamic_shared() {
  extern __shared__ __align__(1024) unsigned char vindex_dynamic_shared[];
  return vindex_dynamic_shared;
}

/// `pointer` into shared memory as the 32-bit address that PTX takes.
__device__ inline std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

/// Stores where `store` is true, by a predicate and never by a branch: the compiler would move the
/// arithmetic of `value` into the branch, and a warp would take one after the other.
__device__ inline void store_shared_if(double* pointer, double value, bool store) {
  asm volatile("{.reg .pred p; setp.ne.s32 p, %2, 0; @p st.shared.f64 [%0], %1;}" ::"r"(
                   shared_address(pointer)),
               "d"(value), "r"(static_cast<int>(store))
               : "memory");
}
__device__ inline void store_shared_if(float* pointer, float value, bool store) {
  asm volatile("{.reg .pred p; setp.ne.s32 p, %2, 0; @p st.shared.f32 [%0], %1;}" ::"r"(
                   shared_address(pointer)),
               "f"(value), "r"(static_cast<int>(store))
               : "memory");
}

/// Loads and stores at a 32-bit address of shared memory, `Bytes` on, which costs no addition.
template <int Bytes>
__device__ inline void load_shared(float& value, int address) {
  asm volatile("ld.shared.f32 %0, [%1+%2];" : "=f"(value) : "r"(address), "n"(Bytes) : "memory");
}
template <int Bytes>
__device__ inline void load_shared(double& value, int address) {
  asm volatile("ld.shared.f64 %0, [%1+%2];" : "=d"(value) : "r"(address), "n"(Bytes) : "memory");
}
template <int Bytes>
__device__ inline void store_shared(float value, int address) {
  asm volatile("st.shared.f32 [%0+%2], %1;" ::"r"(address), "f"(value), "n"(Bytes) : "memory");
}
template <int Bytes>
__device__ inline void store_shared(double value, int address) {
  asm volatile("st.shared.f64 [%0+%2], %1;" ::"r"(address), "d"(value), "n"(Bytes) : "memory");
}
/// As store_shared_if() above.
template <int Bytes>
__device__ inline void store_shared_if(float value, int address, bool store) {
  asm volatile("{.reg .pred p; setp.ne.s32 p, %2, 0; @p st.shared.f32 [%0+%3], %1;}" ::"r"(address),
               "f"(value), "r"(static_cast<int>(store)), "n"(Bytes)
               : "memory");
}
template <int Bytes>
__device__ inline void store_shared_if(double value, int address, bool store) {
  asm volatile("{.reg .pred p; setp.ne.s32 p, %2, 0; @p st.shared.f64 [%0+%3], %1;}" ::"r"(address),
               "d"(value), "r"(static_cast<int>(store)), "n"(Bytes)
               : "memory");
}

/// Waits for the first `threads` threads of the block, whole warps, that arrive at barrier `id`, 1
/// to 15. What they wrote to shared memory before is then seen by all of them.
__device__ inline void meet(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/// How long a wait for a flag may last, and who is told that it lasted longer.
struct Patience {
  long long cycles = 0;
  void* report = nullptr;  ///< 16 bytes that become `code`, block x and z, thread; null: nowhere
};

/// Ends the kernel with an error once `begin` is longer ago than the patience.
__device__ inline void keep_waiting(long long begin, const Patience& patience, std::uint32_t code) {
  if (clock64() - begin > patience.cycles) {
    if (patience.report != nullptr) {
      auto* const words = static_cast<volatile std::uint32_t*>(patience.report);
      words[1] = blockIdx.x;
      words[2] = blockIdx.z;
      words[3] = threadIdx.x;
      words[0] = code;
      __threadfence_system();
    }
    __trap();
  }
  __nanosleep(20);
}

/// Sets a flag in shared memory, by a whole warp: who then sees it by await_in_block() sees all
/// that the warp wrote before, and what it had seen itself.
__device__ inline void publish_in_block(int* flag, int value, int lane) {
  __syncwarp();
  if (lane == 0) {
    asm volatile("st.release.cta.shared.s32 [%0], %1;" ::"r"(shared_address(flag)), "r"(value)
                 : "memory");
  }
}
/// The same in global memory, for other blocks, which use await_on_device().
__device__ inline void publish_on_device(int* flag, int value, int lane) {
  __syncwarp();
  if (lane == 0) {
    asm volatile("st.release.gpu.global.s32 [%0], %1;" ::"l"(__cvta_generic_to_global(flag)),
                 "r"(value)
                 : "memory");
  }
}
/// Waits until a flag is at least `least`, by a whole warp, of which each lane may name another;
/// all lanes then see what was written before any of the flags was set.
__device__ inline void await_in_block(const int* flag, int least, const Patience& patience,
                                      std::uint32_t code) {
  const auto has_come = [&] {
    int value = 0;
    asm volatile("ld.acquire.cta.shared.s32 %0, [%1];"
                 : "=r"(value)
                 : "r"(shared_address(flag))
                 : "memory");
    return __all_sync(0xFFFFFFFFU, static_cast<int>(value >= least)) != 0;
  };
  if (!has_come()) {
    const long long begin = clock64();
    while (!has_come()) {
      keep_waiting(begin, patience, code);
    }
  }
  __syncwarp();
}
/// The same of flags that other blocks set; the least of them then.
__device__ inline int await_on_device(const int* flag, int least, const Patience& patience,
                                      std::uint32_t code) {
  int value = 0;
  const auto has_come = [&] {
    asm volatile("ld.acquire.gpu.global.s32 %0, [%1];"
                 : "=r"(value)
                 : "l"(__cvta_generic_to_global(flag))
                 : "memory");
    return __all_sync(0xFFFFFFFFU, static_cast<int>(value >= least)) != 0;
  };
  if (!has_come()) {
    const long long begin = clock64();
    while (!has_come()) {
      keep_waiting(begin, patience, code);
    }
  }
  __syncwarp();
  return __reduce_min_sync(0xFFFFFFFFU, value);
}

/// 1 / value and 1 / sqrt(value) of a positive normal number, from the unit for special functions
/// alone: CUDA's own go on with branches for what is not normal. The unit reads the upper 32 bits
/// of the number and leaves zeros in the lower ones of the result, which errs by up to 2^-19.
__device__ inline double rough_reciprocal(double value) {
  double out;
  asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(out) : "d"(value));
  return out;
}
__device__ inline double rough_inverse_root(double value) {
  double out;
  asm("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(out) : "d"(value));
  return out;
}

/// The same of float32, to 22 bits.
__device__ inline float rough_reciprocal(float value) {
  float out;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(value));
  return out;
}
__device__ inline float rough_inverse_root(float value) {
  float out;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(value));
  return out;
}

/// A number that the compiler has to keep, as it does not know any more how it was computed.
__device__ inline void keep_in_register(int& value) { asm volatile("" : "+r"(value)); }

/// Copies 16 bytes, both sides 16-byte aligned, past the L1 cache. Lands at the copy_async_wait
/// that covers its group, for this thread; for others after a barrier behind that.
__device__ inline void copy_async_16(void* shared, const void* global) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(shared)),
               "l"(__cvta_generic_to_global(global))
               : "memory");
}

/// The same; writes zeros without reading `global` where `copy` is false. `global` stays a valid
/// pointer all the same.
__device__ inline void copy_async_16_or_zero(void* shared, const void* global, bool copy) {
  const int source_bytes = copy ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)),
               "l"(__cvta_generic_to_global(global)), "r"(source_bytes)
               : "memory");
}

/// Closes the group of this thread's copies issued since the last one.
__device__ inline void copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

/// Waits until at most `Pending` of this thread's latest groups are still under way.
template <int Pending>
__device__ inline void copy_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}

/// Stores 16 bytes that nobody reads soon: the L2 cache keeps what others need instead.
/// `global` is 16-byte aligned.
__device__ inline void store_streaming_16(float* global, const float (&values)[4]) {
  asm volatile("st.global.cs.v4.f32 [%0], {%1,%2,%3,%4};" ::"l"(__cvta_generic_to_global(global)),
               "f"(values[0]), "f"(values[1]), "f"(values[2]), "f"(values[3])
               : "memory");
}

/// The index of this warp in its block of whole warps, in x, as a value that the compiler knows to
/// be one for all lanes: else it guards every shuffle and product against lanes that went apart.
__device__ inline int warp_of_block() {
  return __shfl_sync(0xffffffffU, static_cast<int>(threadIdx.x) / 32, 0);
}

// The products D += A B of a warp; every lane takes part. With g = lane / 4 and t = lane % 4 a lane
// holds, of the m16n8k16 products, A rows {g, g+8, g, g+8} at columns 2t and 2t+1 (registers 0, 1)
// and 2t+8 and 2t+9 (registers 2, 3), B columns g at rows 2t, 2t+1 and 2t+8, 2t+9, lower index in
// the lower half; D rows g (0, 1) and g+8 (2, 3) at columns 2t and 2t+1.

/// binary16 operands, float32 sums.
__device__ inline void mma_f16(float (&d)[4], const std::uint32_t (&a)[4],
                               const std::uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/// The same with D = A B, without zeros to be made first.
__device__ inline void mma_f16_fresh(float (&d)[4], const std::uint32_t (&a)[4],
                                     const std::uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(0.0F));
}

/// bfloat16 operands, float32 sums.
__device__ inline void mma_bf16(float (&d)[4], const std::uint32_t (&a)[4],
                                const std::uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/// m16n8k8 with tf32 operands, float32 sums: A rows {g, g+8, g, g+8} at columns
/// {t, t, t+4, t+4}, B column g at rows t and t+4, D as above.
__device__ inline void mma_tf32(float (&d)[4], const std::uint32_t (&a)[4],
                                const std::uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/// m16n8k32 of signed bytes, four to a word, added up in 32 bits, exactly while those hold: A rows
/// {g, g+8, g, g+8} at columns 4t to 4t+3 (registers 0, 1) and 4t+16 to 4t+19 (2, 3), B column g at
/// rows 4t to 4t+3 and 4t+16 to 4t+19, lowest index in the lowest byte; D as above.
__device__ inline void mma_s8(std::int32_t (&d)[4], const std::uint32_t (&a)[4],
                              const std::uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/// m8n8k4 in float64: A row g at column t, B column g at row t, D row g at columns 2t and 2t+1.
__device__ inline void mma_f64(double (&d)[2], double a, double b) {
  asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
               : "+d"(d[0]), "+d"(d[1])
               : "d"(a), "d"(b));
}

/// m16n8k8 in float64, fragments as in mma_tf32: one instruction on sm_90, which reaches the full
/// rate only with these, four m8n8k4 before.
__device__ inline void mma_f64_m16n8k8(double (&d)[4], const double (&a)[4], const double (&b)[2]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 "
      "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3])
      : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
#else
  double upper[2] = {d[0], d[1]};
  double lower[2] = {d[2], d[3]};
  mma_f64(upper, a[0], b[0]);
  mma_f64(lower, a[1], b[0]);
  mma_f64(upper, a[2], b[1]);
  mma_f64(lower, a[3], b[1]);
  d[0] = upper[0];
  d[1] = upper[1];
  d[2] = lower[0];
  d[3] = lower[1];
#endif
}

/// Four 8 x 8 matrices of 16-bit elements. Lane l names row l % 8 of matrix l / 8 (16 bytes,
/// 16-byte aligned, in shared memory) and gets, of matrix i in r[i], elements 2t and 2t+1 of row g.
__device__ inline void load_matrix_x4(std::uint32_t (&r)[4], const void* row_in_shared) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row_in_shared))
               : "memory");
}

/// The same, each matrix transposed: r[i] holds element g of rows 2t and 2t+1.
__device__ inline void load_matrix_x4_transposed(std::uint32_t (&r)[4], const void* row_in_shared) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row_in_shared))
               : "memory");
}

/// Two float32 rounded to nearest as binary16, `low` in the lower half; what exceeds 65504 by half
/// a unit becomes infinite.
__device__ inline std::uint32_t to_half_pair(float low, float high) {
  std::uint32_t bits = 0;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
}

/// The same as bfloat16.
__device__ inline std::uint32_t to_bfloat_pair(float low, float high) {
  std::uint32_t bits = 0;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
}

/// Two E4M3 codes, in the lower bytes of `codes`, as binary16, which holds each of them exactly;
/// the lower one in the lower half. A code that is no number becomes not-a-number from sm_89 on,
/// where this is one instruction; before, callers keep such codes away: their bits are those of a
/// binary16 but for the exponent's bias, and 480 would come out.
__device__ inline std::uint32_t e4m3_pair_to_half(std::uint32_t codes) {
  std::uint32_t bits = 0;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(bits) : "h"(static_cast<std::uint16_t>(codes)));
#else
  const std::uint32_t high_bytes = __byte_perm(codes, 0, 0x1404);  // [-, code, -, code]
  const std::uint32_t small = (high_bytes & 0x80008000U) | (high_bytes & 0x7F007F00U) >> 1U;
  asm("mul.f16x2 %0, %1, %2;" : "=r"(bits) : "r"(small), "r"(0x5C005C00U));  // 2^8
#endif
  return bits;
}

/// The two binary16 numbers of `pair`, as float32.
__device__ inline float low_half(std::uint32_t pair) {
  float value = 0.0F;
  asm("{.reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, low;}"
      : "=f"(value)
      : "r"(pair));
  return value;
}
__device__ inline float high_half(std::uint32_t pair) {
  float value = 0.0F;
  asm("{.reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, high;}"
      : "=f"(value)
      : "r"(pair));
  return value;
}

/// Bytes of all ones where the byte of `word` has its highest bit, of zeros elsewhere.
__device__ inline std::uint32_t bytes_of_signs(std::uint32_t word) {
  std::uint32_t bytes = 0;
  asm("prmt.b32 %0, %1, 0, 0xBA98;" : "=r"(bytes) : "r"(word));
  return bytes;
}

}  // namespace vindex::kernels::device
