// The emulation of sm_90a's asynchronous parts at its worst: what a device may get right by chance
// is wrong or named here.
#include "kernels/device/launch.hpp"
#include "kernels/device/trap_report.hpp"
#include "tests/kernels/kernel_fixture.hpp"
#include <vindex/error.hpp>

#include <cmath>
#include <emulated/execution.hpp>
#include <warpgroup.hpp>

namespace vindex::test::warpgroup_emulation_test {
namespace {

using emulated::KernelFault;
using kernels::kWaitCycles;
using kernels::launch;
using namespace kernels::device;

constexpr int kLineBytes = 128;                  ///< 64 binary16 numbers
constexpr int kOperandBytes = 128 * kLineBytes;  ///< 128 lines; A takes the first 64 of them
constexpr int kGroupBytes = 8 * kLineBytes;
constexpr std::uint16_t kOne = 0x3C00;

enum class Mistake { kNone, kNoFence, kNoWait, kTouched, kFreedEarly, kNoInitFence };

/// One warpgroup multiplies 64 x 16 by 16 x 128, all ones, twice into the same sums.
template <Mistake kMistake>
__global__ void multiply_ones(const unsigned char* ones, const unsigned char* zeros, float* out) {
  unsigned char* const operand = dynamic_shared();
  auto* const full = reinterpret_cast<SharedBarrier*>(operand + kOperandBytes);
  if (threadIdx.x == 0) {
    barrier_init(full, 1);
    if (kMistake != Mistake::kNoInitFence) {
      barrier_init_fence();
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    barrier_arrive_expecting(full, kOperandBytes);
    copy_bulk(operand, ones, kOperandBytes, full);
  }
  barrier_wait(full, 0, kWaitCycles, nullptr, 0);
  float sums[64];
  for (float& sum : sums) {
    sum = 5.0F;
  }
  if (kMistake != Mistake::kNoFence) {
    warpgroup_fence();
  }
  const std::uint64_t lines = operand_descriptor(operand, 16, kGroupBytes);
  warpgroup_mma_f16<false>(sums, lines, lines, true);
  warpgroup_commit();
  warpgroup_mma_f16<false>(sums, lines, lines, true);
  warpgroup_commit();
  if (kMistake == Mistake::kTouched) {
    sums[7] = 1.0F;
  }
  if (kMistake == Mistake::kFreedEarly) {
    __syncthreads();
    if (threadIdx.x == 0) {
      barrier_arrive_expecting(full, kOperandBytes);
      copy_bulk(operand, zeros, kOperandBytes, full);
    }
    barrier_wait(full, 1, kWaitCycles, nullptr, 0);
  }
  if (kMistake == Mistake::kNoWait) {
    warpgroup_wait<1>();
  } else {
    warpgroup_wait<0>();
  }
  out[threadIdx.x] = sums[threadIdx.x % 64];
}

class Warpgroups : public KernelTest {
 protected:
  /// What the threads found, or the fault.
  template <Mistake kMistake>
  std::vector<float> run(std::string& fault) {
    const std::vector<std::uint16_t> values(kOperandBytes / sizeof(kOne), kOne);
    DeviceArray<std::uint16_t> ones(values);
    DeviceArray<std::uint16_t> zeros(std::vector<std::uint16_t>(values.size(), 0));
    DeviceArray<float> out(128);
    try {
      launch(multiply_ones<kMistake>, 1, 128, kOperandBytes + sizeof(SharedBarrier), stream(),
             reinterpret_cast<const unsigned char*>(ones.data()),
             reinterpret_cast<const unsigned char*>(zeros.data()), out.data());
    } catch (const KernelFault& found) {
      fault = found.what();
      return {};
    }
    return out.values();
  }
};

TEST_P(Warpgroups, ProductsAddUpBehindTheirWait) {
  std::string fault;
  EXPECT_EQ(run<Mistake::kNone>(fault), std::vector<float>(128, 5.0F + 2.0F * 16.0F)) << fault;
}

TEST_P(Warpgroups, SumsAreNothingBeforeTheWait) {
  std::string fault;
  for (const float sum : run<Mistake::kNoWait>(fault)) {
    EXPECT_TRUE(std::isnan(sum));
  }
  EXPECT_EQ(fault, "");
}

TEST_P(Warpgroups, AMissingFenceIsNamed) {
  std::string fault;
  (void)run<Mistake::kNoFence>(fault);
  EXPECT_NE(fault.find("without a fence"), std::string::npos) << fault;
}

TEST_P(Warpgroups, SumsMayNotBeTouchedMeanwhile) {
  std::string fault;
  (void)run<Mistake::kTouched>(fault);
  EXPECT_NE(fault.find("sums were touched"), std::string::npos) << fault;
}

TEST_P(Warpgroups, OperandsMustStayUntilTheWait) {
  std::string fault;
  const std::vector<float> sums = run<Mistake::kFreedEarly>(fault);
  ASSERT_EQ(sums.size(), 128U) << fault;
  EXPECT_NE(sums[0], 5.0F + 2.0F * 16.0F);
}

TEST_P(Warpgroups, BarriersAreMadeKnownToCopies) {
  std::string fault;
  (void)run<Mistake::kNoInitFence>(fault);
  EXPECT_NE(fault.find("barrier_init_fence"), std::string::npos) << fault;
}

enum class PairMistake { kNone, kNoMeeting, kEndsEarly };

/// Each block of a pair sends half of what both get; then arrives at the other's barrier.
template <PairMistake kMistake>
__global__ void send_to_pair(const float* halves, float* out) {
  constexpr int kHalf = 32;
  auto* const memory = reinterpret_cast<float*>(dynamic_shared());
  auto* const full = reinterpret_cast<SharedBarrier*>(memory + 2 * kHalf);
  SharedBarrier* const done = full + 1;
  const int rank = static_cast<int>(blockIdx.x % 2);
  if (threadIdx.x == 0) {
    barrier_init(full, 1);
    barrier_init(done, 32);
    barrier_init_fence();
  }
  if (kMistake != PairMistake::kNoMeeting) {
    cluster_meet();
  }
  if (threadIdx.x == 0) {
    barrier_arrive_expecting(full, 2 * kHalf * static_cast<int>(sizeof(float)));
    copy_bulk_to_pair(memory + rank * kHalf, halves + blockIdx.x * kHalf,
                      kHalf * static_cast<int>(sizeof(float)), full);
  }
  barrier_wait(full, 0, kWaitCycles, nullptr, 0);
  float* const to = out + blockIdx.x * 2 * kHalf;
  to[threadIdx.x] = memory[threadIdx.x];
  to[threadIdx.x + kHalf] = memory[threadIdx.x + kHalf];
  if (kMistake == PairMistake::kEndsEarly && rank == 0) {
    return;
  }
  barrier_arrive_at(done, rank ^ 1);
  if (kMistake == PairMistake::kNone) {
    barrier_wait(done, 0, kWaitCycles, nullptr, 0);
    cluster_meet();
  }
}

TEST_P(Warpgroups, PairsOfBlocksShareCopiesAndBarriers) {
  std::vector<float> halves(4 * 32);
  for (std::size_t i = 0; i < halves.size(); ++i) {
    halves[i] = static_cast<float>(i);
  }
  DeviceArray<float> from(halves);
  DeviceArray<float> out(4 * 64);
  const auto fault_of = [&](void (*kernel)(const float*, float*), unsigned blocks) -> std::string {
    try {
      launch(kernels::Blocks::kPairs, kernel, blocks, 32, 512, stream(),
             static_cast<const float*>(from.data()), out.data());
    } catch (const KernelFault& found) {
      return found.what();
    } catch (const Error& refused) {
      return refused.what();
    }
    return "";
  };
  EXPECT_EQ(fault_of(send_to_pair<PairMistake::kNone>, 4), "");
  const std::vector<float> got = out.values();
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i], halves[i / 128 * 64 + i % 64]) << i;
  }
  EXPECT_NE(fault_of(send_to_pair<PairMistake::kNone>, 3), "") << "no block is left alone";
  EXPECT_NE(fault_of(send_to_pair<PairMistake::kNoMeeting>, 2), "");
  if (GetParam() == 0) {  // other orders may let the second block be first
    EXPECT_NE(fault_of(send_to_pair<PairMistake::kEndsEarly>, 2).find("has ended"),
              std::string::npos);
  }
}

/// Thread 0 of 33 arrives first once and, after all have met, a second time.
__global__ void wait_for_a_phase(std::uint64_t cycles, kernels::TrapReport* report) {
  auto* const barrier = reinterpret_cast<SharedBarrier*>(dynamic_shared());
  if (threadIdx.x == 0) {
    barrier_init(barrier, 2);
    barrier_init_fence();
    barrier_arrive(barrier);
  }
  __syncthreads();
  if (threadIdx.x == 32) {
    barrier_wait(barrier, 0, cycles, report, 77);
  } else if (threadIdx.x == 0) {
    barrier_arrive(barrier);
  }
}

TEST_P(Warpgroups, AWaitEndsTheKernelBehindItsCycles) {
  DeviceArray<kernels::TrapReport> report(std::vector<kernels::TrapReport>(1));
  const auto fault_of = [&](std::uint64_t cycles) -> std::string {
    try {
      launch(wait_for_a_phase, 1, 33, sizeof(SharedBarrier), stream(), cycles, report.data());
    } catch (const KernelFault& found) {
      return found.what();
    }
    return "";
  };
  EXPECT_EQ(fault_of(kernels::kWaitCycles), "");
  EXPECT_EQ(report.values()[0].code, 0U);
  emulated::set_schedule_seed(0);  // by number: thread 32 looks behind the second arrival
  EXPECT_EQ(fault_of(0), "");
  const std::string said = [&] {
    for (std::uint64_t seed = 1; seed < 100; ++seed) {
      emulated::set_schedule_seed(seed);
      const std::string found = fault_of(0);
      if (!found.empty()) {
        return found;
      }
    }
    return std::string("it never came first");
  }();
  EXPECT_NE(said.find("a wait of 0 cycles for a barrier"), std::string::npos) << said;
  EXPECT_EQ(report.values()[0].code, 77U);
  EXPECT_EQ(report.values()[0].thread, 32U);
}

INSTANTIATE_THREAD_ORDERS(Warpgroups);

}  // namespace
}  // namespace vindex::test::warpgroup_emulation_test
