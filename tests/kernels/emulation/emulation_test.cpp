// The emulation itself: results of small kernels by hand, and every broken rule named.
#include "decode/formats/float_formats.hpp"
#include "kernels/device/launch.hpp"
#include "tests/kernels/kernel_fixture.hpp"

#include <cuda_fp16.h>

#include <bit>
#include <cmath>
#include <emulated/device.hpp>
#include <emulated/execution.hpp>
#include <intrinsics.hpp>
#include <numeric>

namespace vindex::test::emulation_test {
namespace {

using emulated::KernelFault;
using kernels::check;
using kernels::launch;
using namespace kernels::device;

constexpr unsigned int kAll = 0xFFFFFFFFU;

class Emulation : public KernelTest {
 protected:
  template <typename... Parameters, typename... Arguments>
  std::string fault_of(void (*kernel)(Parameters...), dim3 block, Arguments... arguments) {
    try {
      launch(kernel, 1, block, 256, stream(), arguments...);
    } catch (const KernelFault& fault) {
      return fault.what();
    }
    return "none";
  }
};

__global__ void reverse_in_shared(int* values) {
  auto* shared = reinterpret_cast<int*>(dynamic_shared());
  const unsigned int i = threadIdx.x;
  shared[i] = values[blockIdx.x * blockDim.x + i];
  __syncthreads();
  values[blockIdx.x * blockDim.x + i] = shared[blockDim.x - 1 - i];
}

TEST_P(Emulation, BarriersMakeSharedMemoryVisible) {
  std::vector<int> values(3 * 96);
  std::iota(values.begin(), values.end(), 0);
  DeviceArray<int> array(values);
  launch(reverse_in_shared, 3, 96, 96 * sizeof(int), stream(), array.data());
  const std::vector<int> got = array.values();
  for (int i = 0; i < 3 * 96; ++i) {
    EXPECT_EQ(got[static_cast<std::size_t>(i)], i / 96 * 96 + 95 - i % 96);
  }
}

__global__ void count_then_meet(int* counts) {
  const int odd = __syncthreads_count(static_cast<int>(threadIdx.x & 1U));
  __syncthreads();  // a thread may get here before others have read their count
  const int any = __syncthreads_or(static_cast<int>(threadIdx.x == 5));
  __syncthreads();
  counts[threadIdx.x] = 10 * odd + any;
}

TEST_P(Emulation, CountsStayUntilEveryThreadHasRead) {
  DeviceArray<int> counts(64);
  launch(count_then_meet, 1, 64, 0, stream(), counts.data());
  EXPECT_EQ(counts.values(), std::vector<int>(64, 321));
}

__global__ void sum_of_warp(const float* values, float* out, int* votes) {
  float sum = values[threadIdx.x];
  for (int distance = 16; distance > 0; distance /= 2) {
    sum += __shfl_xor_sync(kAll, sum, distance);
  }
  const unsigned int odd = __ballot_sync(kAll, static_cast<int>(threadIdx.x & 1U));
  out[threadIdx.x] = __shfl_down_sync(kAll, sum + static_cast<float>(threadIdx.x % 32), 1);
  votes[threadIdx.x] = static_cast<int>(odd >> 1U & 3U);
}

TEST_P(Emulation, LanesExchangeValues) {
  std::vector<float> values(64);
  std::iota(values.begin(), values.end(), 1.0F);
  DeviceArray<float> in(values);
  DeviceArray<float> out(values.size());
  DeviceArray<int> votes(values.size());
  launch(sum_of_warp, 1, 64, 0, stream(), static_cast<const float*>(in.data()), out.data(),
         votes.data());
  const std::vector<float> got = out.values();
  for (std::size_t i = 0; i < got.size(); ++i) {
    const float sum = i < 32 ? 528.0F : 528.0F + 1024.0F;
    EXPECT_EQ(got[i], sum + static_cast<float>(std::min<std::size_t>(i % 32 + 1, 31)));
  }
  EXPECT_EQ(votes.values(), std::vector<int>(64, 1));
}

__global__ void leave_before_barrier(int which) {
  if (static_cast<int>(threadIdx.x) == which) {
    return;
  }
  __syncthreads();
}

__global__ void two_barriers() {
  if (threadIdx.x % 2 == 0) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}

__global__ void half_a_warp_shuffles(int* out) {
  if (threadIdx.x < 16) {
    out[threadIdx.x] = __shfl_xor_sync(kAll, 1, 1);
  }
}

__global__ void mask_without_caller() { __syncwarp(0xFFFEU); }

TEST_P(Emulation, BrokenRulesAreNamedWithBlockAndThread) {
  EXPECT_NE(fault_of(leave_before_barrier, 64, 37).find("thread (37,0,0) has returned"),
            std::string::npos);
  EXPECT_NE(fault_of(two_barriers, 64).find("__syncthreads() while block (0,0,0) thread"),
            std::string::npos);
  DeviceArray<int> out(32);
  EXPECT_NE(fault_of(half_a_warp_shuffles, 32, out.data()).find("waits for ever for __shfl_sync()"),
            std::string::npos);
  EXPECT_NE(fault_of(mask_without_caller, 32).find("leaves out the caller"), std::string::npos);
  // The next launch is sound again.
  launch(reverse_in_shared, 1, 32, 128, stream(), out.data());
}

__global__ void write_beyond() { dynamic_shared()[256] = 1; }

__global__ void sum_uninitialised(float* out) {
  *out = reinterpret_cast<float*>(dynamic_shared())[threadIdx.x];
}

TEST_P(Emulation, SharedMemoryIsGuardedAndPoisoned) {
  EXPECT_NE(fault_of(write_beyond, 1).find("beyond its 256 bytes"), std::string::npos);
  DeviceArray<float> out(1);
  launch(sum_uninitialised, 1, 1, 64, stream(), out.data());
  EXPECT_TRUE(std::isnan(out.values()[0]));
  DeviceArray<double> fresh(3);
  EXPECT_TRUE(std::isnan(fresh.values()[2]));
}

// What one thread sets between another's permission and its launch.
TEST_P(Emulation, ASmallerLaunchLeavesTheLargerOnesPermission) {
  constexpr std::size_t kLarge = 160U << 10U;
  constexpr std::size_t kSmall = 64U << 10U;
  DeviceArray<float> out(1);
  launch(sum_uninitialised, 1, 1, kLarge, stream(), out.data());
  launch(sum_uninitialised, 1, 1, kSmall, stream(), out.data());
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(1);
  config.blockDim = dim3(1);
  config.dynamicSmemBytes = kLarge;
  config.stream = stream();
  EXPECT_EQ(cudaLaunchKernelEx(&config, sum_uninitialised, out.data()), cudaSuccess);
}

template <bool kWait>
__global__ void copy_through_shared(const float* in, float* out) {
  auto* shared = reinterpret_cast<float*>(dynamic_shared());
  copy_async_16(shared + 4 * threadIdx.x, in + 4 * threadIdx.x);
  copy_async_commit();
  copy_async_16_or_zero(shared + 128 + 4 * threadIdx.x, in, false);
  copy_async_commit();
  copy_async_wait<kWait ? 0 : 1>();
  __syncthreads();
  out[threadIdx.x] = shared[threadIdx.x];
  out[threadIdx.x + 32] = shared[threadIdx.x + 128];
}

TEST_P(Emulation, AsynchronousCopiesLandAtTheirWaitOnly) {
  std::vector<float> values(128);
  std::iota(values.begin(), values.end(), 0.0F);
  DeviceArray<float> in(values);
  DeviceArray<float> out(64);
  launch(copy_through_shared<true>, 1, 32, 1024, stream(), static_cast<const float*>(in.data()),
         out.data());
  std::vector<float> got = out.values();
  EXPECT_EQ(got[31], 31.0F);
  EXPECT_EQ(got[40], 0.0F);
  launch(copy_through_shared<false>, 1, 32, 1024, stream(), static_cast<const float*>(in.data()),
         out.data());
  got = out.values();
  EXPECT_EQ(got[31], 31.0F);
  EXPECT_TRUE(std::isnan(got[40])) << "the second group was not waited for";
}

/// C = A B of one warp, from row-major A (16 x K) and B (K x 8) through the documented fragments.
__global__ void product_f16(const float* a, const float* b, const float* c, float* d) {
  const int group = static_cast<int>(threadIdx.x) / 4;
  const int pair = static_cast<int>(threadIdx.x) % 4;
  const auto both = [](float low, float high) {
    return static_cast<std::uint32_t>(__half_as_ushort(__float2half_rn(low))) |
           static_cast<std::uint32_t>(__half_as_ushort(__float2half_rn(high))) << 16U;
  };
  std::uint32_t fragment_a[4];
  std::uint32_t fragment_b[2];
  float sums[4];
  for (int i = 0; i < 4; ++i) {
    const float* at = a + (group + i % 2 * 8) * 16 + 2 * pair + i / 2 * 8;
    fragment_a[i] = both(at[0], at[1]);
    sums[i] = c[(group + i / 2 * 8) * 8 + 2 * pair + i % 2];
  }
  for (int i = 0; i < 2; ++i) {
    const float* at = b + (2 * pair + i * 8) * 8 + group;
    fragment_b[i] = both(at[0], at[8]);
  }
  mma_f16(sums, fragment_a, fragment_b);
  for (int i = 0; i < 4; ++i) {
    d[(group + i / 2 * 8) * 8 + 2 * pair + i % 2] = sums[i];
  }
}

TEST_P(Emulation, TensorCoreProductsAreExactUpToTheCut) {
  std::vector<float> a(16 * 16);
  std::vector<float> b(16 * 8);
  std::vector<float> c(16 * 8, 0.25F);
  for (std::size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<float>(static_cast<int>(i * 37 % 29) - 14);
  }
  for (std::size_t i = 0; i < b.size(); ++i) {
    b[i] = static_cast<float>(static_cast<int>(i * 53 % 31) - 15) / 8.0F;
  }
  DeviceArray<float> device_a(a);
  DeviceArray<float> device_b(b);
  DeviceArray<float> device_c(c);
  DeviceArray<float> device_d(c.size());
  launch(product_f16, 1, 32, 0, stream(), static_cast<const float*>(device_a.data()),
         static_cast<const float*>(device_b.data()), static_cast<const float*>(device_c.data()),
         device_d.data());
  const std::vector<float> got = device_d.values();
  for (std::size_t row = 0; row < 16; ++row) {
    for (std::size_t col = 0; col < 8; ++col) {
      float sum = c[row * 8 + col];
      for (std::size_t k = 0; k < 16; ++k) {
        sum += a[row * 16 + k] * b[k * 8 + col];  // small multiples of 1/8: exact in any order
      }
      EXPECT_EQ(got[row * 8 + col], sum) << row << " " << col;
    }
  }
  // 2^12 and 15 times 2^-14: a term below 2^(12-25) is cut to nothing, where rounding would keep
  // the sum of 15.
  std::fill(a.begin(), a.end(), 0x1p-14F);
  std::fill(b.begin(), b.end(), 1.0F);
  for (std::size_t row = 0; row < 16; ++row) {
    a[row * 16] = 0x1p12F;
  }
  std::fill(c.begin(), c.end(), 0.0F);
  DeviceArray<float> uneven_a(a);
  DeviceArray<float> ones(b);
  DeviceArray<float> zeros(c);
  const auto run = [&] {
    launch(product_f16, 1, 32, 0, stream(), static_cast<const float*>(uneven_a.data()),
           static_cast<const float*>(ones.data()), static_cast<const float*>(zeros.data()),
           device_d.data());
    return device_d.values()[5];
  };
  EXPECT_EQ(run(), 0x1p12F);
  emulated::set_accumulation(emulated::Accumulation::kExact);
  const float exact = run();
  emulated::set_accumulation(emulated::Accumulation::kTruncating);
  EXPECT_EQ(exact, 0x1p12F + 0x1p-10F);  // 15 x 2^-14 to the nearest multiple of 2^-11
}

__global__ void load_and_transpose(const unsigned short* in, std::uint32_t* out) {
  auto* shared = reinterpret_cast<unsigned short*>(dynamic_shared());
  for (int i = 0; i < 8; ++i) {
    shared[8 * threadIdx.x + i] = in[8 * threadIdx.x + i];
  }
  __syncwarp();
  std::uint32_t straight[4];
  std::uint32_t across[4];
  load_matrix_x4(straight, shared + 8 * threadIdx.x);
  load_matrix_x4_transposed(across, shared + 8 * threadIdx.x);
  for (int i = 0; i < 4; ++i) {
    out[8 * threadIdx.x + i] = straight[i];
    out[8 * threadIdx.x + 4 + i] = across[i];
  }
}

TEST_P(Emulation, MatrixLoadsFollowThePtxLayout) {
  std::vector<unsigned short> in(256);
  std::iota(in.begin(), in.end(), static_cast<unsigned short>(0));
  DeviceArray<unsigned short> device_in(in);
  DeviceArray<std::uint32_t> out(256);
  launch(load_and_transpose, 1, 32, 512, stream(),
         static_cast<const unsigned short*>(device_in.data()), out.data());
  const auto got = out.values();
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    for (std::uint32_t matrix = 0; matrix < 4; ++matrix) {
      const std::uint32_t row = lane / 4;
      const std::uint32_t two = 2 * (lane % 4);
      const std::uint32_t first = 64 * matrix + 8 * row + two;
      EXPECT_EQ(got[8 * lane + matrix], first | (first + 1) << 16U);
      const std::uint32_t upper = 64 * matrix + 8 * two + row;
      EXPECT_EQ(got[8 * lane + 4 + matrix], upper | (upper + 8) << 16U);
    }
  }
}

TEST_P(Emulation, LaunchesAndCopiesAreChecked) {
  DeviceArray<int> array(64);
  EXPECT_THROW(launch(reverse_in_shared, 1, 2048, 0, stream(), array.data()), DeviceError);
  EXPECT_THROW(launch(reverse_in_shared, 1, 32, 300U << 10U, stream(), array.data()), DeviceError);
  std::vector<int> host(65);
  EXPECT_NE(cudaMemcpy(array.data(), host.data(), 65 * sizeof(int), cudaMemcpyHostToDevice),
            cudaSuccess);
  EXPECT_NE(cudaMemcpy(host.data(), host.data(), 4, cudaMemcpyDeviceToHost), cudaSuccess);
  (void)cudaGetLastError();
}

TEST_P(Emulation, LateStreamsShowAMissingEvent) {
  emulated::set_ordering(emulated::Ordering::kLate);
  const kernels::Stream other = kernels::make_stream();
  const std::vector<int> values = {1, 2, 3, 4};
  DeviceArray<int> array(4);
  std::vector<int> out(4, 0);
  check(cudaMemcpyAsync(array.data(), values.data(), 16, cudaMemcpyHostToDevice, stream()));
  check(cudaMemcpyAsync(out.data(), array.data(), 16, cudaMemcpyDeviceToHost, other.get()));
  check(cudaStreamSynchronize(other.get()));
  EXPECT_NE(out, values) << "nothing ordered the second stream behind the first";
  cudaEvent_t copied = nullptr;
  check(cudaEventCreateWithFlags(&copied, cudaEventDisableTiming));
  check(cudaEventRecord(copied, stream()));
  check(cudaStreamWaitEvent(other.get(), copied));
  check(cudaMemcpyAsync(out.data(), array.data(), 16, cudaMemcpyDeviceToHost, other.get()));
  check(cudaStreamSynchronize(other.get()));
  EXPECT_EQ(out, values);
  check(cudaEventDestroy(copied));
  emulated::set_ordering(emulated::Ordering::kAtOnce);
}

TEST_P(Emulation, DeviceMemoryEnds) {
  const std::size_t before = emulated::device_bytes_in_use();
  emulated::set_device_memory(before + 1000);
  kernels::DeviceBuffer buffer("a test");
  EXPECT_THROW(buffer.reserve(1001), OutOfMemory);
  EXPECT_NO_THROW(buffer.reserve(900));
  emulated::set_device_memory(8ULL << 30U);
}

TEST_P(Emulation, NarrowFloatsRoundToNearestEven) {
  EXPECT_EQ(__half_as_ushort(__float2half_rn(1.0F + 0x1p-11F)), 0x3C00);
  EXPECT_EQ(__half_as_ushort(__float2half_rn(1.0F + 0x3p-11F)), 0x3C02);
  EXPECT_EQ(__half_as_ushort(__float2half_rn(-65519.0F)), 0xFBFF);
  EXPECT_EQ(__half_as_ushort(__float2half_rn(65520.0F)), 0x7C00);
  EXPECT_EQ(__half_as_ushort(__float2half_rn(0x1p-24F)), 1);
  EXPECT_EQ(__half_as_ushort(__float2half_rn(0x1p-25F)), 0);
}

/// PTX ISA: rcp.approx.ftz.f64 and rsqrt.approx.ftz.f64 "ignore the least-significant 32 bits".
TEST_P(Emulation, RoughRootsReadAndWriteTheUpperHalf) {
  const double value = std::bit_cast<double>(0x3FF8000000000000ULL);
  const double near = std::bit_cast<double>(0x3FF80000FFFFFFFFULL);
  EXPECT_EQ(rough_reciprocal(near), rough_reciprocal(value));
  EXPECT_EQ(rough_inverse_root(near), rough_inverse_root(value));
  EXPECT_EQ(std::bit_cast<std::uint64_t>(rough_inverse_root(near)) & 0xFFFFFFFFU, 0U);
  EXPECT_NEAR(rough_reciprocal(near) * near, 1.0, 0x1p-19);
  EXPECT_NEAR(rough_inverse_root(near) * std::sqrt(near), 1.0, 0x1p-19);
}

INSTANTIATE_THREAD_ORDERS(Emulation);

__global__ void convert_codes(std::uint32_t* pairs, float* values) {
  const std::uint32_t code = threadIdx.x;
  pairs[code] = e4m3_pair_to_half(code | (255U - code) << 8U);
  values[2 * code] = low_half(pairs[code]);
  values[2 * code + 1] = high_half(pairs[code]);
}

TEST_P(Emulation, E4m3CodesAreExactInBinary16) {
  DeviceArray<std::uint32_t> pairs(256);
  DeviceArray<float> values(512);
  launch(convert_codes, 1, 256, 0, stream(), pairs.data(), values.data());
  const std::vector<float> got = values.values();
  const auto same = [](float a, float b) {
    return std::isnan(b) ? std::isnan(a) : std::bit_cast<int>(a) == std::bit_cast<int>(b);
  };
  for (std::uint32_t code = 0; code < 256; ++code) {
    const auto of = [](std::uint32_t one) {
      return decode::e4m3_to_float(static_cast<std::uint8_t>(one));
    };
    EXPECT_TRUE(same(got[2 * code], of(code))) << code;
    EXPECT_TRUE(same(got[2 * code + 1], of(255 - code))) << code;
  }
  EXPECT_EQ(pairs.values()[0x7F] & 0xFFFFU, 0x7FFFU);
  EXPECT_EQ(bytes_of_signs(0x80017F80U), 0xFF0000FFU);
}

}  // namespace
}  // namespace vindex::test::emulation_test
