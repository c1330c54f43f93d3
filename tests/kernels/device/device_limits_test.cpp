// What a device and its libraries do not forgive, in the emulation: errors that stay, and batches
// beyond what cuSOLVER takes; and that our calls keep within it.
#include "kernels/device/launch.hpp"
#include "kernels/device/symmetric_eigen.hpp"
#include "tests/kernels/kernel_fixture.hpp"
#include <vindex/error.hpp>

#include <emulated/device.hpp>
#include <emulated/execution.hpp>
#include <numeric>

namespace vindex::test::device_limits_test {
namespace {

using namespace kernels;

__global__ void faulty_kernel() { emulated::fault("a fault"); }
__global__ void sound_kernel(int* out) { *out = 7; }

TEST(StickyErrors, EveryCallFailsUntilTheDeviceIsReset) {
  emulated::set_sticky_errors(true);
  {
    const Stream stream = make_stream();
    const BlasHandle blas = make_blas(stream.get());
    DeviceBuffer memory("test");
    auto* const value = memory.reserve_array<int>(16);
    launch(sound_kernel, 1, 1, 0, stream.get(), value);
    launch(faulty_kernel, 1, 32, 0, stream.get());  // asynchronous: it succeeds
    EXPECT_TRUE(emulated::is_device_broken());
    EXPECT_EQ(cudaStreamSynchronize(stream.get()), cudaErrorLaunchFailure);
    EXPECT_EQ(cudaGetLastError(), cudaErrorLaunchFailure);
    EXPECT_EQ(cudaGetLastError(), cudaErrorLaunchFailure) << "it stays";
    int got = 0;
    EXPECT_EQ(cudaMemcpy(&got, value, sizeof got, cudaMemcpyDeviceToHost), cudaErrorLaunchFailure);
    EXPECT_EQ(got, 0) << "nothing is copied any more";
    void* more = nullptr;
    EXPECT_EQ(cudaMalloc(&more, 16), cudaErrorLaunchFailure);
    EXPECT_THROW(launch(sound_kernel, 1, 1, 0, stream.get(), value), DeviceError);
    EXPECT_THROW((void)make_stream(), DeviceError);
    EXPECT_THROW((void)make_event(false), DeviceError);
    EXPECT_THROW((void)make_blas(stream.get()), DeviceError);
    EXPECT_THROW((void)make_solver(stream.get()), DeviceError);
    const double one = 1.0;
    auto* const numbers = reinterpret_cast<double*>(value);
    EXPECT_EQ(cublasDgemm(blas.get(), CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &one, numbers, 1, numbers,
                          1, &one, numbers, 1),
              CUBLAS_STATUS_EXECUTION_FAILED);
    emulated::reset_device();
    launch(sound_kernel, 1, 1, 0, stream.get(), value);
    EXPECT_EQ(cudaMemcpy(&got, value, sizeof got, cudaMemcpyDeviceToHost), cudaSuccess);
    EXPECT_EQ(got, 7);
  }
  emulated::set_sticky_errors(false);
  const Stream stream = make_stream();
  EXPECT_THROW(launch(faulty_kernel, 1, 32, 0, stream.get()), emulated::KernelFault);
  EXPECT_FALSE(emulated::is_device_broken());
}

TEST(SymmetricEigen, CallsAreCutWithinWhatTheLibraryTakes) {
  EXPECT_EQ(matrices_per_call(2), 16384);
  EXPECT_EQ(matrices_per_call(112), 16384);
  EXPECT_EQ(matrices_per_call(2048), 63);  // 64 would be 2 GiB
  EXPECT_EQ(matrices_per_call(40000), 1);

  constexpr std::int64_t kMany = 33000;
  std::vector<double> matrices(static_cast<std::size_t>(4 * kMany), 1.0);
  for (std::size_t i = 0; i < static_cast<std::size_t>(kMany); ++i) {
    matrices[4 * i] = matrices[4 * i + 3] = 2.0 + static_cast<double>(i);  // of values +- 1 of it
  }
  const Stream stream = make_stream();
  const SolverHandle solver = make_solver(stream.get());
  const SolverParameters parameters = make_solver_parameters();
  DeviceArray<double> device(matrices);
  DeviceArray<double> values(static_cast<std::size_t>(2 * kMany));
  DeviceArray<int> info(static_cast<std::size_t>(kMany));
  std::size_t bytes = 0;
  std::size_t host_bytes = 0;
  EXPECT_NE(cusolverDnXsyevBatched_bufferSize(
                solver.get(), parameters.get(), CUSOLVER_EIG_MODE_NOVECTOR, CUBLAS_FILL_MODE_LOWER,
                2, CUDA_R_64F, device.data(), 2, CUDA_R_64F, values.data(), CUDA_R_64F, &bytes,
                &host_bytes, kMany),
            CUSOLVER_STATUS_SUCCESS);
  EXPECT_NE(cusolverDnXsyevBatched_bufferSize(solver.get(), parameters.get(),
                                              CUSOLVER_EIG_MODE_NOVECTOR, CUBLAS_FILL_MODE_LOWER,
                                              2048, CUDA_R_64F, device.data(), 2048, CUDA_R_64F,
                                              values.data(), CUDA_R_64F, &bytes, &host_bytes, 65),
            CUSOLVER_STATUS_SUCCESS);
  DeviceBuffer work("test");
  std::vector<std::byte> host_work;
  symmetric_eigen({.stream = stream.get(),
                   .solver = solver.get(),
                   .parameters = parameters.get(),
                   .work = &work,
                   .host_work = &host_work},
                  device.data(), 2, kMany, false, values.data(), info.data());
  const std::vector<double> got = values.values();
  for (const std::size_t i : {0, 16383, 16384, 32767, 32768, 32999}) {
    EXPECT_NEAR(got[2 * i], 1.0 + static_cast<double>(i), 1e-10);
    EXPECT_NEAR(got[2 * i + 1], 3.0 + static_cast<double>(i), 1e-10);
  }
}

}  // namespace
}  // namespace vindex::test::device_limits_test
