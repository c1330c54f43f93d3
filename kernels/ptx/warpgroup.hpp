// Owns the inline PTX of sm_90a: products of a warpgroup out of shared memory, barriers in shared
// memory and the bulk copies that arrive at them. Twin: tests/emulated_cuda/include/warpgroup.hpp.
// Other architectures compile to nothing; kHasWarpgroups says which, and the host asks
// choose_product_kernel() before it launches. Source: PTX ISA 9.0, "wgmma", "mbarrier",
// "cp.async.bulk", "Asynchronous warpgroup level matrix shared memory layout".
#pragma once

#include <cstdint>
#include <intrinsics.hpp>

namespace vindex::kernels::device {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
inline constexpr bool kHasWarpgroups = true;
#define VINDEX_SM90(...) asm volatile(__VA_ARGS__)
#else
inline constexpr bool kHasWarpgroups = false;
#define VINDEX_SM90(...) static_cast<void>(0)
#endif

/// A barrier in shared memory: a phase ends when `arrivals` have come and all announced bytes too.
using SharedBarrier = std::uint64_t;

/// By one thread; then barrier_init_fence() by it and a block barrier, before any other use.
__device__ inline void barrier_init(SharedBarrier* barrier, int arrivals) {
  VINDEX_SM90("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)),
              "r"(arrivals)
              : "memory");
}
/// Makes initialised barriers known to copies.
__device__ inline void barrier_init_fence() {
  VINDEX_SM90("fence.mbarrier_init.release.cluster;" ::: "memory");
  VINDEX_SM90("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ inline void barrier_arrive(SharedBarrier* barrier) {
  VINDEX_SM90("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}
/// One arrival, and `bytes` that copies will bring in this phase.
__device__ inline void barrier_arrive_expecting(SharedBarrier* barrier, int bytes) {
  VINDEX_SM90(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
      "r"(bytes)
      : "memory");
}
/// Waits for the end of the phase of this parity; the phase before the first counts as parity 1 and
/// as ended. A wait of `cycles` of the device's clock is for something that never comes: the kernel
/// says so in `report` (16 bytes: `code`, block x and z, thread; null: nowhere) and ends with an
/// error, which a self-test can tell, and not never. Whoever launches says how long that is, since
/// sanitizers and other users of the device stretch it.
__device__ inline void barrier_wait(SharedBarrier* barrier, int parity, std::uint64_t cycles,
                                    void* report, std::uint32_t code) {
  VINDEX_SM90(
      "{\n"
      ".reg .pred ended;\n"
      ".reg .u64 begin, now;\n"
      ".reg .u32 block_x, block_z, thread;\n"
      "mbarrier.try_wait.parity.shared::cta.b64 ended, [%0], %1;\n"
      "@ended bra done;\n"
      "mov.u64 begin, %%clock64;\n"
      "again: mbarrier.try_wait.parity.shared::cta.b64 ended, [%0], %1;\n"
      "@ended bra done;\n"
      "mov.u64 now, %%clock64;\n"
      "sub.u64 now, now, begin;\n"
      "setp.lt.u64 ended, now, %4;\n"
      "@ended bra again;\n"
      "setp.eq.u64 ended, %2, 0;\n"
      "@ended bra unsaid;\n"
      "mov.u32 block_x, %%ctaid.x;\n"
      "mov.u32 block_z, %%ctaid.z;\n"
      "mov.u32 thread, %%tid.x;\n"
      "st.volatile.v4.u32 [%2], {%3, block_x, block_z, thread};\n"
      "membar.sys;\n"
      "unsaid: trap;\n"
      "done:\n"
      "}\n" ::"r"(shared_address(barrier)),
      "r"(parity), "l"(report), "r"(code), "l"(cycles)
      : "memory");
}

/// Copies `bytes`, a multiple of 16 as are both addresses, to shared memory; they arrive at
/// `barrier`. By one thread.
__device__ inline void copy_bulk(void* shared, const void* global, int bytes,
                                 SharedBarrier* barrier) {
  VINDEX_SM90(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(shared_address(shared)),
      "l"(__cvta_generic_to_global(global)), "r"(bytes), "r"(shared_address(barrier))
      : "memory");
}

/// Waits for all threads of the cluster; what they did to shared memory before is then seen by all.
/// Also before a block ends whose shared memory others may still write to.
__device__ inline void cluster_meet() {
  VINDEX_SM90(
      "barrier.cluster.arrive.release;\n"
      "barrier.cluster.wait.acquire;\n" ::
          : "memory");
}
/// An arrival at the barrier that lies in block `rank` of the cluster where `barrier` lies in this
/// one.
__device__ inline void barrier_arrive_at(SharedBarrier* barrier, int rank) {
  VINDEX_SM90(
      "{\n"
      ".reg .b32 there;\n"
      "mapa.shared::cluster.u32 there, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [there];\n"
      "}\n" ::"r"(shared_address(barrier)),
      "r"(rank)
      : "memory");
}
/// copy_bulk() to the same place in both blocks of a cluster of two, each of which gets the bytes
/// at its own barrier.
__device__ inline void copy_bulk_to_pair(void* shared, const void* global, int bytes,
                                         SharedBarrier* barrier) {
  VINDEX_SM90(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1], %2, [%3], %4;" ::"r"(shared_address(shared)),
      "l"(__cvta_generic_to_global(global)), "r"(bytes), "r"(shared_address(barrier)),
      "h"(static_cast<std::uint16_t>(3))
      : "memory");
}

/// Ends the kernel with an error, and `code` in `report` as barrier_wait() has it, where the
/// operands' memory is not aligned as the 128-byte swizzle takes for granted: it goes by the
/// address itself, so elsewhere products would be wrong, silently. One comparison per thread that
/// asks.
__device__ inline void require_swizzle_alignment(const void* shared, void* report,
                                                 std::uint32_t code) {
  VINDEX_SM90(
      "{\n"
      ".reg .pred skip;\n"
      ".reg .u32 rest, block_x, block_z, thread;\n"
      "and.b32 rest, %0, 1023;\n"
      "setp.eq.u32 skip, rest, 0;\n"
      "@skip bra aligned;\n"
      "setp.eq.u64 skip, %1, 0;\n"
      "@skip bra unsaid;\n"
      "mov.u32 block_x, %%ctaid.x;\n"
      "mov.u32 block_z, %%ctaid.z;\n"
      "mov.u32 thread, %%tid.x;\n"
      "st.volatile.v4.u32 [%1], {%2, block_x, block_z, thread};\n"
      "membar.sys;\n"
      "unsaid: trap;\n"
      "aligned:\n"
      "}\n" ::"r"(shared_address(shared)),
      "l"(report), "r"(code)
      : "memory");
}

/// Descriptor of an operand in shared memory with the 128-byte swizzle: rows of 128 bytes in groups
/// of eight (1024-byte aligned), of which `stride_bytes` lead to the next group along the rows.
/// Where a row runs along the contraction, rows are lines and `leading_bytes` is not used; where it
/// runs along 64 lines, rows are steps and `leading_bytes` lead to the next 64 lines.
__device__ inline std::uint64_t operand_descriptor(const void* shared, int leading_bytes,
                                                   int stride_bytes) {
  constexpr std::uint64_t kSwizzle128 = 1;
  const auto field = [](std::uint32_t bytes) {
    return static_cast<std::uint64_t>((bytes & 0x3FFFFU) >> 4U);
  };
  return field(shared_address(shared)) | field(static_cast<std::uint32_t>(leading_bytes)) << 16U |
         field(static_cast<std::uint32_t>(stride_bytes)) << 32U | kSwizzle128 << 62U;
}

/// Registers of each thread of a warpgroup from here on, more or fewer than it was launched with;
/// by all its warps. What is given up by some can be taken by others of the block, which wait for
/// it.
template <int Count>
__device__ inline void warpgroup_take_registers() {
  static_assert(Count % 8 == 0 && Count >= 24 && Count <= 256);
  VINDEX_SM90("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Count));
}
template <int Count>
__device__ inline void warpgroup_give_registers() {
  static_assert(Count % 8 == 0 && Count >= 24 && Count <= 256);
  VINDEX_SM90("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Count));
}

/// Before the first product, and again after registers of sums were touched.
__device__ inline void warpgroup_fence() { VINDEX_SM90("wgmma.fence.sync.aligned;" ::: "memory"); }
/// Closes the group of products issued since the last one.
__device__ inline void warpgroup_commit() {
  VINDEX_SM90("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// Waits until at most `Pending` groups are under way; sums are valid after 0.
template <int Pending>
__device__ inline void warpgroup_wait() {
  VINDEX_SM90("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
}
/// Keeps the compiler from moving uses of `sums` over a fence or a wait.
__device__ inline void hold_sums(float (&sums)[64]) {
#pragma unroll
  for (float& sum : sums) {
    VINDEX_SM90("" : "+f"(sum)::"memory");
  }
}

/// In one statement: of loops like the above the compiler unrolls only so many before it gives
/// arrays up to memory.
__device__ inline void hold_sums(std::int32_t (&sums)[64]) {
  VINDEX_SM90(""
              : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3]), "+r"(sums[4]),
                "+r"(sums[5]), "+r"(sums[6]), "+r"(sums[7]), "+r"(sums[8]), "+r"(sums[9]),
                "+r"(sums[10]), "+r"(sums[11]), "+r"(sums[12]), "+r"(sums[13]), "+r"(sums[14]),
                "+r"(sums[15]), "+r"(sums[16]), "+r"(sums[17]), "+r"(sums[18]), "+r"(sums[19]),
                "+r"(sums[20]), "+r"(sums[21]), "+r"(sums[22]), "+r"(sums[23]), "+r"(sums[24]),
                "+r"(sums[25]), "+r"(sums[26]), "+r"(sums[27]), "+r"(sums[28]), "+r"(sums[29]),
                "+r"(sums[30]), "+r"(sums[31]), "+r"(sums[32]), "+r"(sums[33]), "+r"(sums[34]),
                "+r"(sums[35]), "+r"(sums[36]), "+r"(sums[37]), "+r"(sums[38]), "+r"(sums[39]),
                "+r"(sums[40]), "+r"(sums[41]), "+r"(sums[42]), "+r"(sums[43]), "+r"(sums[44]),
                "+r"(sums[45]), "+r"(sums[46]), "+r"(sums[47]), "+r"(sums[48]), "+r"(sums[49]),
                "+r"(sums[50]), "+r"(sums[51]), "+r"(sums[52]), "+r"(sums[53]), "+r"(sums[54]),
                "+r"(sums[55]), "+r"(sums[56]), "+r"(sums[57]), "+r"(sums[58]), "+r"(sums[59]),
                "+r"(sums[60]), "+r"(sums[61]), "+r"(sums[62]), "+r"(sums[63])::"memory");
}

// D = A B, or D += A B where `accumulate`, for the four warps of an aligned warpgroup: A 64 x 16, B
// 16 x 128, both by descriptor. Warp w (0 to 3) holds lines 16 w of D; with g = lane / 4 and
// t = lane % 4, d[4 j + i] is line g + 8 (i / 2), column 8 j + 2 t + i % 2. `LinesAlongRows`: both
// operands are stored with 64 lines in a row (PTX: transposed, "MN-major").

/// binary16 operands, float32 sums.
template <bool LinesAlongRows>
__device__ inline void warpgroup_mma_f16(float (&d)[64], std::uint64_t a, std::uint64_t b,
                                         bool accumulate) {
  VINDEX_SM90(
      "{\n"
      ".reg .pred p;\n"
      "setp.ne.b32 p, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, "
      "%40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, "
      "%56, %57, %58, %59, %60, %61, %62, %63}, "
      "%64, %65, p, 1, 1, %67, %67;\n"
      "}\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
        "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
        "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
        "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
        "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]),
        "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]),
        "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]),
        "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
        "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]),
        "+f"(d[63])
      : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)), "n"(LinesAlongRows ? 1 : 0));
}

/// bfloat16 operands, float32 sums.
template <bool LinesAlongRows>
__device__ inline void warpgroup_mma_bf16(float (&d)[64], std::uint64_t a, std::uint64_t b,
                                          bool accumulate) {
  VINDEX_SM90(
      "{\n"
      ".reg .pred p;\n"
      "setp.ne.b32 p, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, "
      "%40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, "
      "%56, %57, %58, %59, %60, %61, %62, %63}, "
      "%64, %65, p, 1, 1, %67, %67;\n"
      "}\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
        "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
        "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
        "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
        "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]),
        "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]),
        "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]),
        "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
        "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]),
        "+f"(d[63])
      : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)), "n"(LinesAlongRows ? 1 : 0));
}

/// A 64 x 32, B 32 x 128 of signed bytes, added up in 32 bits; both stored with steps along rows,
/// 32 bytes for a product: the other way round there are none of bytes.
__device__ inline void warpgroup_mma_s8(std::int32_t (&d)[64], std::uint64_t a, std::uint64_t b,
                                        bool accumulate) {
  VINDEX_SM90(
      "{\n"
      ".reg .pred p;\n"
      "setp.ne.b32 p, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k32.s32.s8.s8 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, "
      "%8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, "
      "%24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, "
      "%40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, "
      "%56, %57, %58, %59, %60, %61, %62, %63}, "
      "%64, %65, p;\n"
      "}\n"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]), "+r"(d[4]), "+r"(d[5]), "+r"(d[6]),
        "+r"(d[7]), "+r"(d[8]), "+r"(d[9]), "+r"(d[10]), "+r"(d[11]), "+r"(d[12]), "+r"(d[13]),
        "+r"(d[14]), "+r"(d[15]), "+r"(d[16]), "+r"(d[17]), "+r"(d[18]), "+r"(d[19]), "+r"(d[20]),
        "+r"(d[21]), "+r"(d[22]), "+r"(d[23]), "+r"(d[24]), "+r"(d[25]), "+r"(d[26]), "+r"(d[27]),
        "+r"(d[28]), "+r"(d[29]), "+r"(d[30]), "+r"(d[31]), "+r"(d[32]), "+r"(d[33]), "+r"(d[34]),
        "+r"(d[35]), "+r"(d[36]), "+r"(d[37]), "+r"(d[38]), "+r"(d[39]), "+r"(d[40]), "+r"(d[41]),
        "+r"(d[42]), "+r"(d[43]), "+r"(d[44]), "+r"(d[45]), "+r"(d[46]), "+r"(d[47]), "+r"(d[48]),
        "+r"(d[49]), "+r"(d[50]), "+r"(d[51]), "+r"(d[52]), "+r"(d[53]), "+r"(d[54]), "+r"(d[55]),
        "+r"(d[56]), "+r"(d[57]), "+r"(d[58]), "+r"(d[59]), "+r"(d[60]), "+r"(d[61]), "+r"(d[62]),
        "+r"(d[63])
      : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)));
}

#undef VINDEX_SM90

}  // namespace vindex::kernels::device
