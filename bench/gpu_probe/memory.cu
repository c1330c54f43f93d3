// Device memory and L2: copies by the driver and by a kernel, reads that stay in L2.
#include "probe.hpp"

#include "kernels/device/launch.hpp"

namespace vindex::probe {

namespace {

/// Every block reads the whole buffer `times` over, past L1.
__global__ void read_kernel(const float4* values, std::int64_t count, int times, float* sink) {
  float sum = 0.0F;
  for (int round = 0; round < times; ++round) {
    // Blocks begin at different places, so that they do not queue for one slice of L2.
    const std::int64_t shift =
        count / gridDim.x * ((blockIdx.x + static_cast<unsigned>(round)) % gridDim.x);
    for (std::int64_t i = threadIdx.x; i < count; i += 4 * blockDim.x) {
#pragma unroll
      for (int part = 0; part < 4; ++part) {
        std::int64_t place = i + static_cast<std::int64_t>(part) * blockDim.x + shift;
        place = place >= count ? place - count : place;
        if (place < count) {
          const float4 value = __ldcg(values + place);
          sum += value.x + value.y + value.z + value.w;
        }
      }
    }
  }
  if (sum == -1.2345F) {  // never; keeps the sums
    *sink = sum;
  }
}

}  // namespace

void probe_memory(Probe& probe) {
  constexpr std::int64_t kCount = 256LL << 20U;  // 1 GiB
  DeviceBuffer from_memory("copies from");
  DeviceBuffer to_memory("copies to");
  auto* const from = from_memory.reserve_array<float>(kCount);
  auto* const to = to_memory.reserve_array<float>(kCount);
  fill_random(from, kCount, 1, probe.stream());
  fill_random(to, kCount, 2, probe.stream());
  constexpr double kBytes = 4.0 * kCount;

  probe.run(
      plain_row("probe.device_copy", "cudaMemcpyAsync, read and written", "gb_per_s"),
      [&](throughput::Row& row) {
        row.samples = gigabytes_per_second(2.0 * kBytes, probe.microseconds([&] {
          check(cudaMemcpyAsync(to, from, 4 * kCount, cudaMemcpyDeviceToDevice, probe.stream()));
        }));
      });
  probe.run(plain_row("probe.device_copy", "kernel, read and written", "gb_per_s"),
            [&](throughput::Row& row) {
              row.samples = gigabytes_per_second(2.0 * kBytes, probe.microseconds([&] {
                copy_on_device(from, to, kCount, 1, probe.stream());
              }));
            });
  for (const std::int64_t mebibytes : {8, 16, 32}) {
    probe.run(
        plain_row("probe.l2_read", std::to_string(mebibytes) + " MiB by every block", "gb_per_s"),
        [&](throughput::Row& row) {
          const std::int64_t count = mebibytes << 16U;  // float4
          const int blocks = 2 * probe.properties().multiProcessorCount;
          const double bytes = 16.0 * static_cast<double>(count) * blocks * 2.0;
          row.samples = gigabytes_per_second(bytes, probe.microseconds([&] {
            kernels::launch(read_kernel, dim3(static_cast<unsigned>(blocks)), dim3(1024), 0,
                            probe.stream(), reinterpret_cast<const float4*>(from), count, 2, to);
          }));
          row.note = "L2 has " + std::to_string(probe.properties().l2CacheSize >> 20) + " MiB";
        });
  }
}

}  // namespace vindex::probe
