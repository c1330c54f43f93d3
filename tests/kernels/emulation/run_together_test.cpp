// Blocks of the emulation that run together: they wait for one another by flags, interleave in the
// order of the schedule, and what never comes is told of.
#include "kernels/band/chase/shared_chase.hpp"
#include "kernels/device/trap_report.hpp"
#include "tests/kernels/kernel_fixture.hpp"
#include "tests/kernels/tridiagonal/tridiagonal_reference.hpp"
#include <vindex/error.hpp>

#include <emulated/device.hpp>
#include <emulated/execution.hpp>
#include <intrinsics.hpp>
#include <set>

namespace vindex::test::run_together_test {
namespace {

using emulated::KernelFault;
using kernels::Blocks;
using kernels::launch;
using namespace kernels::device;

class RunTogether : public KernelTest {};

/// Each block adds to what the one before it left; the last one waits for the first again.
__global__ void relay_kernel(int* flags, float* sums, int rounds, bool waits) {
  const int block = static_cast<int>(blockIdx.x);
  const int blocks = static_cast<int>(gridDim.x);
  const int lane = static_cast<int>(threadIdx.x);
  for (int round = 0; round < rounds; ++round) {
    const int before = block > 0 ? block - 1 : blocks - 1;
    const int least = block > 0 ? round + 1 : round;
    if (waits) {
      await_on_device(flags + before, least, {}, 0);
    }
    const float left = round == 0 && block == 0 ? 0.0F : sums[before * 32 + lane];
    sums[block * 32 + lane] = left + 1.0F;
    publish_on_device(flags + block, round + 1, lane);
  }
}

TEST_P(RunTogether, BlocksPassOnWhatFlagsSayIsThere) {
  constexpr int kBlocks = 4;
  constexpr int kRounds = 6;
  for (const bool waits : {true, false}) {
    DeviceArray<int> flags(std::vector<int>(kBlocks, 0));
    DeviceArray<float> sums(kBlocks * 32);
    launch(Blocks::kTogether, relay_kernel, kBlocks, 32, 0, stream(), flags.data(), sums.data(),
           kRounds, waits);
    const std::vector<float> wanted(32, kBlocks * kRounds);
    const std::vector<float> got = sums.values();
    EXPECT_EQ(std::equal(wanted.begin(), wanted.end(), got.end() - 32), waits)
        << "without flags a block reads what is not there yet";
  }
}

TEST_P(RunTogether, BlocksThatAreNotTogetherWaitForEver) {
  DeviceArray<int> flags(std::vector<int>(2, 0));
  DeviceArray<float> sums(64);
  try {
    launch(relay_kernel, 2, 32, 0, stream(), flags.data(), sums.data(), 3, true);
    FAIL() << "one of them waits for the other";
  } catch (const KernelFault& fault) {
    EXPECT_NE(std::string(fault.what()).find("waits for ever for a flag"), std::string::npos);
  }
}

__global__ void one_leaves_kernel(int* flags) {
  if (blockIdx.x == 0) {
    await_on_device(flags, 1, {}, 0);
  }
}
__global__ void goes_back_kernel(int* flags) {
  publish_on_device(flags, 2, static_cast<int>(threadIdx.x));
  publish_on_device(flags, 1, static_cast<int>(threadIdx.x));
}
__global__ void own_memory_kernel() {
  publish_on_device(reinterpret_cast<int*>(dynamic_shared()), 1, static_cast<int>(threadIdx.x));
}

TEST_P(RunTogether, BrokenRulesAreNamed) {
  DeviceArray<int> flags(std::vector<int>(1, 0));
  const auto fault_of = [&](auto kernel, auto... arguments) -> std::string {
    try {
      launch(Blocks::kTogether, kernel, 3, 32, 64, stream(), arguments...);
    } catch (const KernelFault& fault) {
      return fault.what();
    }
    return "none";
  };
  EXPECT_NE(
      fault_of(one_leaves_kernel, flags.data()).find("thread (0,0,0) waits for ever for a flag"),
      std::string::npos);
  EXPECT_NE(fault_of(goes_back_kernel, flags.data()).find("a flag that goes back"),
            std::string::npos);
  EXPECT_NE(fault_of(own_memory_kernel).find("not in global memory"), std::string::npos);
  // More than fit at a time are refused, as a device does.
  EXPECT_THROW(
      launch(Blocks::kTogether, one_leaves_kernel, 4 * 32 + 1, 64, 0, stream(), flags.data()),
      DeviceError);
  launch(Blocks::kTogether, relay_kernel, 1, 32, 0, stream(), flags.data(),
         DeviceArray<float>(32).data(), 0, true);  // the next launch is sound again
}

__global__ void order_kernel(int* order, int* place) {
  for (int round = 0; round < 100; ++round) {
    __syncwarp();
    if (threadIdx.x == 0) {
      order[(*place)++] = static_cast<int>(blockIdx.x);
    }
  }
}

TEST(RunTogetherOrder, IsTheSchedulesAndLeavesSomeFarBehind) {
  std::set<std::vector<int>> orders;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    set_thread_order(seed);
    DeviceArray<int> order(300);
    DeviceArray<int> place(std::vector<int>{0});
    launch(Blocks::kTogether, order_kernel, 3, 32, 0, nullptr, order.data(), place.data());
    orders.insert(order.values());
  }
  set_thread_order(0);
  EXPECT_GE(orders.size(), 6U);
}

TEST_P(RunTogether, AFlagOfTheChaseThatIsLostIsToldOf) {
  constexpr std::int64_t kN = 120;
  const std::vector<double> noise = band_of_noise(kN, 3);
  std::vector<float> band(static_cast<std::size_t>(kernels::chase_elements(kN)), 0.0F);
  for (std::int64_t j = 0; j < kN; ++j) {
    for (std::int64_t i = j; i < std::min(kN, j + 33); ++i) {
      band[static_cast<std::size_t>(kernels::band_index(i, j))] =
          static_cast<float>(noise[static_cast<std::size_t>(j * 33 + i - j)]);
    }
  }
  DeviceArray<float> bands(band);
  DeviceArray<int> flags(64);
  DeviceArray<double> values(2 * kN);
  const auto plan = kernels::chase_plan_of(kN, 1, sizeof(float),
                                           {.shared_bytes = 232448, .multiprocessors = 132}, 4, 3);
  for (const int lost : {1, 2, 5, 40, 200}) {
    kernels::clear_trap_report();
    emulated::lose_flag(lost);
    EXPECT_THROW((kernels::shared_chase<float, float>(bands.data(), kN, 1, plan, flags.data(),
                                                      values.data(), values.data() + kN, stream())),
                 KernelFault);
    emulated::lose_flag(0);
    EXPECT_NE(kernels::trap_text().find("a flag of the chase did not come (part "),
              std::string::npos)
        << lost << ": " << kernels::trap_text();
  }
  kernels::clear_trap_report();
}

INSTANTIATE_THREAD_ORDERS(RunTogether);

}  // namespace
}  // namespace vindex::test::run_together_test
