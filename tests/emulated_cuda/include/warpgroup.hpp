// The twin of kernels/ptx/warpgroup.hpp for the CPU: barriers and bulk copies with their phases and
// byte counts, products that find their operands in shared memory by descriptor and swizzle as the
// PTX ISA defines them.
#pragma once

#include <cstdint>
#include <intrinsics.hpp>
#include <source_location>

namespace vindex::emulated {

/// A fault where not all lanes of the warp come.
void meet_warp(const char* kind, std::source_location where);
void warpgroup_fence(std::source_location where);
void warpgroup_commit(std::source_location where);
void warpgroup_wait(std::size_t pending, std::source_location where);
enum class WarpgroupOperand : std::uint8_t { kHalf, kBfloat16, kByte };
/// `d` 64 sums, float32 or, of bytes, 32-bit integers.
void warpgroup_product(void* d, std::uint64_t a, std::uint64_t b, bool accumulate,
                       bool lines_along_rows, WarpgroupOperand operand, std::source_location where);

}  // namespace vindex::emulated

namespace vindex::kernels::device {

inline constexpr bool kHasWarpgroups = true;

using SharedBarrier = std::uint64_t;

void barrier_init(SharedBarrier* barrier, int arrivals,
                  std::source_location where = std::source_location::current());
void barrier_init_fence();
void barrier_arrive(SharedBarrier* barrier,
                    std::source_location where = std::source_location::current());
void barrier_arrive_expecting(SharedBarrier* barrier, int bytes,
                              std::source_location where = std::source_location::current());
/// Here a cycle is a look at the barrier that finds its phase not ended.
void barrier_wait(SharedBarrier* barrier, int parity, std::uint64_t cycles, void* report,
                  std::uint32_t code, std::source_location where = std::source_location::current());
void copy_bulk(void* shared, const void* global, int bytes, SharedBarrier* barrier,
               std::source_location where = std::source_location::current());
void cluster_meet(std::source_location where = std::source_location::current());
void barrier_arrive_at(SharedBarrier* barrier, int rank,
                       std::source_location where = std::source_location::current());
void copy_bulk_to_pair(void* shared, const void* global, int bytes, SharedBarrier* barrier,
                       std::source_location where = std::source_location::current());
void require_swizzle_alignment(const void* shared, void* report, std::uint32_t code,
                               std::source_location where = std::source_location::current());
std::uint64_t operand_descriptor(const void* shared, int leading_bytes, int stride_bytes);

inline void warpgroup_fence(std::source_location where = std::source_location::current()) {
  emulated::warpgroup_fence(where);
}
inline void warpgroup_commit(std::source_location where = std::source_location::current()) {
  emulated::warpgroup_commit(where);
}
template <int Pending>
void warpgroup_wait(std::source_location where = std::source_location::current()) {
  static_assert(Pending >= 0);
  emulated::warpgroup_wait(Pending, where);
}
template <int Count>
void warpgroup_take_registers(std::source_location where = std::source_location::current()) {
  emulated::meet_warp("warpgroup_take_registers", where);
}
template <int Count>
void warpgroup_give_registers(std::source_location where = std::source_location::current()) {
  emulated::meet_warp("warpgroup_give_registers", where);
}
inline void hold_sums(float (&/*sums*/)[64]) {}
inline void hold_sums(std::int32_t (&/*sums*/)[64]) {}

template <bool LinesAlongRows>
void warpgroup_mma_f16(float (&d)[64], std::uint64_t a, std::uint64_t b, bool accumulate,
                       std::source_location where = std::source_location::current()) {
  emulated::warpgroup_product(d, a, b, accumulate, LinesAlongRows,
                              emulated::WarpgroupOperand::kHalf, where);
}
template <bool LinesAlongRows>
void warpgroup_mma_bf16(float (&d)[64], std::uint64_t a, std::uint64_t b, bool accumulate,
                        std::source_location where = std::source_location::current()) {
  emulated::warpgroup_product(d, a, b, accumulate, LinesAlongRows,
                              emulated::WarpgroupOperand::kBfloat16, where);
}
inline void warpgroup_mma_s8(std::int32_t (&d)[64], std::uint64_t a, std::uint64_t b,
                             bool accumulate,
                             std::source_location where = std::source_location::current()) {
  emulated::warpgroup_product(d, a, b, accumulate, false, emulated::WarpgroupOperand::kByte, where);
}

}  // namespace vindex::kernels::device
