// Owns the functions that CUDA C++ gives device code without a header: synchronisation, warp
// exchange, atomics, bit tricks and correctly rounded arithmetic.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <emulated/execution.hpp>
#include <math.h>  // NOLINT(modernize-deprecated-headers): device code calls them unqualified
#include <source_location>
#include <type_traits>

// NOLINTBEGIN(bugprone-reserved-identifier): CUDA's names
using VindexWhere = std::source_location;

inline void __syncthreads(VindexWhere where = VindexWhere::current()) {
  vindex::emulated::block_barrier(where);
}
inline int __syncthreads_count(int predicate, VindexWhere where = VindexWhere::current()) {
  return vindex::emulated::block_count(predicate != 0, where);
}
inline int __syncthreads_or(int predicate, VindexWhere where = VindexWhere::current()) {
  return vindex::emulated::block_count(predicate != 0, where) > 0 ? 1 : 0;
}
inline int __syncthreads_and(int predicate, VindexWhere where = VindexWhere::current()) {
  return vindex::emulated::block_count(predicate == 0, where) == 0 ? 1 : 0;
}
inline void __syncwarp(unsigned int mask = 0xFFFFFFFFU,
                       VindexWhere where = VindexWhere::current()) {
  vindex::emulated::warp_operation("__syncwarp()", mask, nullptr, nullptr, where);
}
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}
inline void __nanosleep(unsigned int) {}
inline long long clock64() { return 0; }

namespace vindex::emulated {

template <typename T>
struct Exchange {
  T value;
  std::uint32_t source;
  T result;
};

/// Every lane gets the value of lane `source`.
template <typename T>
T exchange(unsigned int mask, T value, std::uint32_t source, std::source_location where) {
  static_assert(std::is_trivially_copyable_v<T>);
  Exchange<T> own = {value, source, value};
  warp_operation(
      "__shfl_sync()", mask, &own,
      [](void* const(&lanes)[32]) {
        for (void* lane : lanes) {
          if (lane != nullptr) {
            auto* to = static_cast<Exchange<T>*>(lane);
            const auto* from = static_cast<const Exchange<T>*>(lanes[to->source]);
            if (from != nullptr) {
              to->result = from->value;
            } else {
              poison(&to->result, sizeof(T));  // a lane outside the mask: undefined
            }
          }
        }
      },
      where);
  return own.result;
}

inline std::uint32_t ballot(unsigned int mask, bool predicate, std::source_location where) {
  struct Vote {
    bool predicate;
    std::uint32_t result;
  } own = {predicate, 0};
  warp_operation(
      "__ballot_sync()", mask, &own,
      [](void* const(&lanes)[32]) {
        std::uint32_t votes = 0;
        for (std::uint32_t i = 0; i < 32; ++i) {
          if (lanes[i] != nullptr && static_cast<Vote*>(lanes[i])->predicate) {
            votes |= 1U << i;
          }
        }
        for (void* lane : lanes) {
          if (lane != nullptr) {
            static_cast<Vote*>(lane)->result = votes;
          }
        }
      },
      where);
  return own.result;
}

template <typename T, typename Combine>
T reduce_lanes(unsigned int mask, T value, std::source_location where) {
  Exchange<T> own = {value, 0, value};
  warp_operation(
      "__reduce_sync()", mask, &own,
      [](void* const(&lanes)[32]) {
        bool first = true;
        T total{};
        for (void* lane : lanes) {
          if (lane != nullptr) {
            const T one = static_cast<Exchange<T>*>(lane)->value;
            total = first ? one : Combine{}(total, one);
            first = false;
          }
        }
        for (void* lane : lanes) {
          if (lane != nullptr) {
            static_cast<Exchange<T>*>(lane)->result = total;
          }
        }
      },
      where);
  return own.result;
}

}  // namespace vindex::emulated

template <typename T>
T __shfl_sync(unsigned int mask, T value, int source, int width = 32,
              VindexWhere where = VindexWhere::current()) {
  const std::uint32_t lane = vindex::emulated::lane_index();
  const auto w = static_cast<std::uint32_t>(width);
  return vindex::emulated::exchange(mask, value,
                                    lane / w * w + static_cast<std::uint32_t>(source) % w, where);
}
template <typename T>
T __shfl_up_sync(unsigned int mask, T value, unsigned int delta, int width = 32,
                 VindexWhere where = VindexWhere::current()) {
  const std::uint32_t lane = vindex::emulated::lane_index();
  const std::uint32_t within = lane % static_cast<std::uint32_t>(width);
  return vindex::emulated::exchange(mask, value, within >= delta ? lane - delta : lane, where);
}
template <typename T>
T __shfl_down_sync(unsigned int mask, T value, unsigned int delta, int width = 32,
                   VindexWhere where = VindexWhere::current()) {
  const std::uint32_t lane = vindex::emulated::lane_index();
  const std::uint32_t within = lane % static_cast<std::uint32_t>(width);
  const bool inside = within + delta < static_cast<std::uint32_t>(width);
  return vindex::emulated::exchange(mask, value, inside ? lane + delta : lane, where);
}
template <typename T>
T __shfl_xor_sync(unsigned int mask, T value, int lane_mask, int width = 32,
                  VindexWhere where = VindexWhere::current()) {
  const std::uint32_t lane = vindex::emulated::lane_index();
  const std::uint32_t other = lane ^ static_cast<std::uint32_t>(lane_mask);
  const auto w = static_cast<std::uint32_t>(width);
  return vindex::emulated::exchange(mask, value, other / w <= lane / w ? other : lane, where);
}
inline unsigned int __ballot_sync(unsigned int mask, int predicate,
                                  VindexWhere where = VindexWhere::current()) {
  return vindex::emulated::ballot(mask, predicate != 0, where);
}
inline int __any_sync(unsigned int mask, int predicate,
                      VindexWhere where = VindexWhere::current()) {
  return vindex::emulated::ballot(mask, predicate != 0, where) != 0 ? 1 : 0;
}
inline int __all_sync(unsigned int mask, int predicate,
                      VindexWhere where = VindexWhere::current()) {
  return vindex::emulated::ballot(mask, predicate == 0, where) == 0 ? 1 : 0;
}
template <typename T>
T __reduce_add_sync(unsigned int mask, T value, VindexWhere where = VindexWhere::current()) {
  return vindex::emulated::reduce_lanes<T, std::plus<T>>(mask, value, where);
}
template <typename T>
T __reduce_max_sync(unsigned int mask, T value, VindexWhere where = VindexWhere::current()) {
  struct Larger {
    T operator()(T a, T b) const { return a < b ? b : a; }
  };
  return vindex::emulated::reduce_lanes<T, Larger>(mask, value, where);
}
template <typename T>
T __reduce_min_sync(unsigned int mask, T value, VindexWhere where = VindexWhere::current()) {
  struct Smaller {
    T operator()(T a, T b) const { return b < a ? b : a; }
  };
  return vindex::emulated::reduce_lanes<T, Smaller>(mask, value, where);
}

// Atomics: blocks run one after another and a fiber is not interrupted.
template <typename T>
T atomicExch(T* address, std::type_identity_t<T> value) {
  const T old = *address;
  *address = value;
  return old;
}
template <typename T>
T atomicAdd(T* address, std::type_identity_t<T> value) {
  static_assert(std::is_integral_v<T>, "sums of floats depend on the order: not in a kernel here");
  return atomicExch(address, static_cast<T>(*address + value));
}
template <typename T>
T atomicSub(T* address, std::type_identity_t<T> value) {
  return atomicExch(address, static_cast<T>(*address - value));
}
template <typename T>
T atomicMax(T* address, std::type_identity_t<T> value) {
  return atomicExch(address, *address < value ? value : *address);
}
template <typename T>
T atomicMin(T* address, std::type_identity_t<T> value) {
  return atomicExch(address, value < *address ? value : *address);
}
template <typename T>
T atomicOr(T* address, std::type_identity_t<T> value) {
  return atomicExch(address, static_cast<T>(*address | value));
}
template <typename T>
T atomicAnd(T* address, std::type_identity_t<T> value) {
  return atomicExch(address, static_cast<T>(*address & value));
}
template <typename T>
T atomicCAS(T* address, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
  const T old = *address;
  if (old == expected) {
    *address = value;
  }
  return old;
}

template <typename T>
T __ldg(const T* address) {
  return *address;
}
template <typename T>
T __ldcg(const T* address) {
  return *address;
}
template <typename T>
T __ldcs(const T* address) {
  return *address;
}
template <typename T>
T __ldca(const T* address) {
  return *address;
}
template <typename T>
void __stcg(T* address, std::type_identity_t<T> value) {
  *address = value;
}
template <typename T>
void __stcs(T* address, std::type_identity_t<T> value) {
  *address = value;
}

inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline unsigned int __float_as_uint(float x) { return std::bit_cast<unsigned int>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline float __uint_as_float(unsigned int x) { return std::bit_cast<float>(x); }
inline long long __double_as_longlong(double x) { return std::bit_cast<long long>(x); }
inline double __longlong_as_double(long long x) { return std::bit_cast<double>(x); }
inline int __double2hiint(double x) {
  return static_cast<int>(std::bit_cast<std::int64_t>(x) >> 32);
}
inline int __double2loint(double x) { return static_cast<int>(std::bit_cast<std::int64_t>(x)); }
inline double __hiloint2double(int high, int low) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(static_cast<std::uint32_t>(high)) << 32U |
                               static_cast<std::uint32_t>(low));
}
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned int>(x)); }
inline int __clzll(long long x) { return std::countl_zero(static_cast<unsigned long long>(x)); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline int __popc(unsigned int x) { return std::popcount(x); }
inline int __popcll(unsigned long long x) { return std::popcount(x); }
inline unsigned int __byte_perm(unsigned int x, unsigned int y, unsigned int selector) {
  const unsigned long long bytes = static_cast<unsigned long long>(y) << 32U | x;
  unsigned int result = 0;
  for (unsigned int i = 0; i < 4; ++i) {
    const unsigned int choice = selector >> (4 * i) & 15U;
    auto byte = static_cast<unsigned int>(bytes >> (8 * (choice & 7U)) & 255U);
    if ((choice & 8U) != 0) {
      byte = (byte & 128U) != 0 ? 255U : 0U;  // the sign of the byte, replicated
    }
    result |= byte << (8 * i);
  }
  return result;
}
inline unsigned int __funnelshift_r(unsigned int low, unsigned int high, unsigned int shift) {
  return static_cast<unsigned int>((static_cast<unsigned long long>(high) << 32U | low) >>
                                   (shift & 31U));
}
inline unsigned int __funnelshift_l(unsigned int low, unsigned int high, unsigned int shift) {
  return static_cast<unsigned int>(
      (static_cast<unsigned long long>(high) << 32U | low) << (shift & 31U) >> 32U);
}
inline int __mul24(int x, int y) { return x * y; }

inline float __fadd_rn(float x, float y) { return x + y; }
inline float __fsub_rn(float x, float y) { return x - y; }
inline float __fmul_rn(float x, float y) { return x * y; }
inline float __fdiv_rn(float x, float y) { return x / y; }
inline float __fdividef(float x, float y) { return x / y; }
inline float __frcp_rn(float x) { return 1.0F / x; }
inline float __fsqrt_rn(float x) { return std::sqrt(x); }
inline float __fmaf_rn(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
inline double __dadd_rn(double x, double y) { return x + y; }
inline double __dsub_rn(double x, double y) { return x - y; }
inline double __dmul_rn(double x, double y) { return x * y; }
inline double __ddiv_rn(double x, double y) { return x / y; }
inline double __drcp_rn(double x) { return 1.0 / x; }
inline double __dsqrt_rn(double x) { return std::sqrt(x); }
inline double __fma_rn(double x, double y, double z) { return __builtin_fma(x, y, z); }
inline double rsqrt(double x) { return 1.0 / std::sqrt(x); }
inline float rsqrt(float x) { return 1.0F / std::sqrt(x); }
inline float rsqrtf(float x) { return 1.0F / std::sqrt(x); }
inline float __frsqrt_rn(float x) { return 1.0F / std::sqrt(x); }
inline float __saturatef(float x) { return std::clamp(x, 0.0F, 1.0F); }
inline int __float2int_rn(float x) { return static_cast<int>(std::nearbyint(x)); }
inline int __float2int_rz(float x) { return static_cast<int>(x); }
inline unsigned int __float2uint_rn(float x) {
  return static_cast<unsigned int>(std::nearbyint(x));
}
inline int __double2int_rn(double x) { return static_cast<int>(std::nearbyint(x)); }
inline long long __double2ll_rn(double x) { return static_cast<long long>(std::nearbyint(x)); }
inline float __double2float_rn(double x) { return static_cast<float>(x); }
inline float __int2float_rn(int x) { return static_cast<float>(x); }
inline double __int2double_rn(int x) { return x; }
inline std::size_t __cvta_generic_to_shared(const void* pointer) {
  return static_cast<std::size_t>(static_cast<const unsigned char*>(pointer) -
                                  vindex::emulated::shared_memory());
}

// CUDA's min and max take mixed integers; theirs and ours agree for the types kernels use.
template <typename A, typename B>
constexpr std::common_type_t<A, B> min(A a, B b) {
  using T = std::common_type_t<A, B>;
  return static_cast<T>(b) < static_cast<T>(a) ? static_cast<T>(b) : static_cast<T>(a);
}
template <typename A, typename B>
constexpr std::common_type_t<A, B> max(A a, B b) {
  using T = std::common_type_t<A, B>;
  return static_cast<T>(a) < static_cast<T>(b) ? static_cast<T>(b) : static_cast<T>(a);
}
// NOLINTEND(bugprone-reserved-identifier)
