// What is said of a launch that is refused, of a kernel that faults, and of one that ends itself.
#include "kernels/device/launch.hpp"
#include "tests/kernels/gram/gram_fixture.hpp"
#include <vindex/error.hpp>

#include <emulated/device.hpp>
#include <emulated/execution.hpp>
#include <stdexcept>
#include <warpgroup.hpp>

namespace vindex::test::launch_errors_test {
namespace {

using namespace kernels;

__global__ void idle_kernel(int /*value*/) {}
__global__ void faulty_kernel() { emulated::fault("a fault"); }
/// A wait for a copy that nobody makes.
__global__ void waiting_kernel(TrapReport* report) {
  auto* const barrier = reinterpret_cast<device::SharedBarrier*>(device::dynamic_shared());
  if (threadIdx.x == 0) {
    device::barrier_init(barrier, 1);
    device::barrier_init_fence();
  }
  __syncthreads();
  if (threadIdx.x == 5) {
    device::barrier_wait(barrier, 0, kWaitCycles, report, trap_code(TrapSite::kFullStage, 3, 0));
  }
}
__global__ void misaligned_kernel(TrapReport* report) {
  device::require_swizzle_alignment(device::dynamic_shared() + 128, report,
                                    trap_code(TrapSite::kAlignment, 0, 0));
}

/// Errors stay, as on a device; launches are waited for where asked.
class LaunchErrors : public ::testing::Test {
 protected:
  void SetUp() override { emulated::set_sticky_errors(true); }
  void TearDown() override {
    launches_are_awaited = false;
    emulated::set_sticky_errors(false);
    clear_trap_report();
  }
  template <typename Work>
  static std::string error_of(const Work& work) {
    try {
      work();
    } catch (const DeviceError& error) {
      return error.what();
    }
    return "no error";
  }
  static void expect_in(const std::string& part, const std::string& text) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }
};

TEST_F(LaunchErrors, ARefusedLaunchIsNamedWithItsSizes) {
  emulated::set_function_name(
      reinterpret_cast<const void*>(&idle_kernel),
      "_ZN6vindex7kernels12_GLOBAL__N_119factor_panel_kernelIfdLi8ELi8EEEvNS0_5PanelIT_T0_EE");
  const Stream stream = make_stream();
  const std::string error =
      error_of([&] { launch(idle_kernel, dim3(2, 3, 70000), dim3(64), 4096, stream.get(), 1); });
  expect_in(
      "invalid configuration argument at the launch of factor_panel_kernel<float, double, 8, 8>",
      error);
  expect_in("grid 2 x 3 x 70000, block 64 x 1 x 1, 4096 bytes of shared memory", error);
  emulated::set_function_name(reinterpret_cast<const void*>(&idle_kernel), "main");
  EXPECT_EQ(function_name(reinterpret_cast<const void*>(&idle_kernel)), "main");
  EXPECT_EQ(function_name(reinterpret_cast<const void*>(&faulty_kernel)).find("the kernel at 0x"),
            0U);
}

TEST_F(LaunchErrors, AFaultIsToldOfItsKernelWhereLaunchesAreAwaited) {
  emulated::set_function_name(reinterpret_cast<const void*>(&faulty_kernel), "faulty_kernel");
  emulated::set_function_name(reinterpret_cast<const void*>(&idle_kernel), "idle_kernel");
  const auto faulty = reinterpret_cast<const void*>(&faulty_kernel);
  {
    const Stream stream = make_stream();
    EXPECT_EQ(error_of([&] { launch(faulty_kernel, 1, 32, 0, stream.get()); }), "no error")
        << "a launch does not wait";
    expect_in("in a kernel before, or at the launch of idle_kernel",
              error_of([&] { launch(idle_kernel, 1, 32, 0, stream.get(), 1); }));
    emulated::reset_device();
  }
  launches_are_awaited = true;
  const Stream stream = make_stream();
  expect_in("unspecified launch failure in " + function_name(faulty) + ", grid 1 x 1 x 1",
            error_of([&] { launch(faulty_kernel, 1, 32, 0, stream.get()); }));
  emulated::reset_device();
}

TEST_F(LaunchErrors, AKernelThatEndsItselfSaysWhatItWaitedFor) {
  const Stream stream = make_stream();
  launch(waiting_kernel, dim3(2, 1, 3), dim3(32), 64, stream.get(), trap_report());
  const std::string error = error_of([&] { check(cudaStreamSynchronize(stream.get())); });
  expect_in("unspecified launch failure", error);
  expect_in(
      "; a kernel ended itself: operands did not come (stage 3, parity 0), block 0 of matrix "
      "0, thread 5",
      error);
  expect_in("a kernel ended itself",
            error_of([&] { (void)make_blas(stream.get()); }));  // libraries' errors say it too
  emulated::reset_device();
  clear_trap_report();
  launch(misaligned_kernel, 1, 1, 4096, stream.get(), trap_report());
  expect_in("; a kernel ended itself: operands are not aligned for their swizzle, block 0",
            error_of([&] { check(cudaStreamSynchronize(stream.get())); }));
  emulated::reset_device();
  clear_trap_report();
  launch(faulty_kernel, 1, 32, 0, stream.get());
  EXPECT_EQ(error_of([&] { check(cudaStreamSynchronize(stream.get())); }).find("ended itself"),
            std::string::npos)
      << "a fault is none";
  emulated::reset_device();
}

}  // namespace
}  // namespace vindex::test::launch_errors_test
