// Owns the measurement of what it costs to wait for each other: launches, barriers of a cluster and
// of the whole grid; shared memory of a neighbour in the cluster; how many large clusters fit.
#include "probe.hpp"

#include "kernels/device/launch.hpp"

#include <array>
#include <cooperative_groups.h>
#include <intrinsics.hpp>

namespace vindex::probe {

namespace {

namespace groups = cooperative_groups;

constexpr int kBarriers = 1000;
constexpr unsigned kClusterThreads = 512;

__global__ void empty_kernel() {}

__global__ void grid_barrier_kernel(int count) {
  const groups::grid_group grid = groups::this_grid();
  for (int i = 0; i < count; ++i) {
    grid.sync();
  }
}

__global__ void cluster_barrier_kernel([[maybe_unused]] int count) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  const groups::cluster_group cluster = groups::this_cluster();
  for (int i = 0; i < count; ++i) {
    cluster.sync();
  }
#endif
}

/// Every block reads `float4_count` of its neighbour's shared memory `times` over.
__global__ void neighbour_kernel([[maybe_unused]] int float4_count, [[maybe_unused]] int times,
                                 [[maybe_unused]] float* sink) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  auto* const own = reinterpret_cast<float4*>(kernels::device::dynamic_shared());
  const groups::cluster_group cluster = groups::this_cluster();
  for (int i = static_cast<int>(threadIdx.x); i < float4_count; i += static_cast<int>(blockDim.x)) {
    const auto value = static_cast<float>(i + 1);
    own[i] = make_float4(value, -value, 0.5F * value, 1.0F);
  }
  cluster.sync();
  const unsigned neighbour = (cluster.block_rank() + 1) % cluster.num_blocks();
  const float4* const other = cluster.map_shared_rank(own, neighbour);
  float sum = 0.0F;
  for (int round = 0; round < times; ++round) {
#pragma unroll 4
    for (int i = static_cast<int>(threadIdx.x); i < float4_count;
         i += static_cast<int>(blockDim.x)) {
      const float4 value = other[i];
      sum += value.x + value.y + value.z + value.w;
    }
  }
  cluster.sync();  // nobody leaves while its memory is read
  if (sum == -1.2345F) {
    *sink = sum;
  }
#endif
}

/// A launch of `clusters` clusters of `size` blocks; `attribute` must stay until it is over.
cudaLaunchConfig_t cluster_config(unsigned clusters, unsigned size, std::size_t shared_bytes,
                                  cudaStream_t stream, cudaLaunchAttribute& attribute) {
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = size;
  attribute.val.clusterDim.y = 1;
  attribute.val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(clusters * size);
  config.blockDim = dim3(kClusterThreads);
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  return config;
}

template <typename Kernel>
void allow(Kernel kernel, unsigned size, std::size_t shared_bytes) {
  if (size > 8) {  // more than what every device takes
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  }
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(shared_bytes)));
}

template <typename Kernel>
int active_clusters(Kernel kernel, unsigned size, std::size_t shared_bytes, cudaStream_t stream) {
  allow(kernel, size, shared_bytes);
  cudaLaunchAttribute attribute{};
  const cudaLaunchConfig_t config = cluster_config(1, size, shared_bytes, stream, attribute);
  int clusters = 0;
  check(cudaOccupancyMaxActiveClusters(&clusters, kernel, &config));
  return clusters;
}

void per_barrier(throughput::Row& row, std::vector<double> times) {
  for (double& time : times) {
    time /= kBarriers;
  }
  row.samples = std::move(times);
  row.note = "one of " + std::to_string(kBarriers) + " in a launch";
}

void cluster_probes(Probe& probe, unsigned size, float* sink) {
  const std::string name = std::to_string(size) + " blocks";
  const std::size_t shared_bytes = 200U << 10U;
  int most = 0;
  probe.run(plain_row("probe.active_clusters", name + ", 200 KiB each", "share"),
            [&](throughput::Row& row) {
              most = active_clusters(neighbour_kernel, size, shared_bytes, probe.stream());
              const int blocks = most * static_cast<int>(size);
              row.samples = {static_cast<double>(blocks) / probe.properties().multiProcessorCount};
              row.note = std::to_string(most) + " clusters, " + std::to_string(blocks) + " of " +
                         std::to_string(probe.properties().multiProcessorCount) +
                         " multiprocessors";
            });
  for (const bool all : {false, true}) {
    probe.run(plain_row("probe.cluster_barrier", name + (all ? ", all clusters" : ", one cluster"),
                        "microseconds"),
              [&](throughput::Row& row) {
                const int clusters =
                    all ? active_clusters(cluster_barrier_kernel, size, 0, probe.stream()) : 1;
                allow(cluster_barrier_kernel, size, 0);
                cudaLaunchAttribute attribute{};
                const cudaLaunchConfig_t config = cluster_config(
                    static_cast<unsigned>(clusters), size, 0, probe.stream(), attribute);
                per_barrier(row, probe.microseconds([&] {
                  check(cudaLaunchKernelEx(&config, cluster_barrier_kernel, kBarriers));
                }));
              });
  }
  probe.run(plain_row("probe.dsmem_read", name + ", all clusters", "gb_per_s"),
            [&](throughput::Row& row) {
              constexpr int kTimes = 200;
              const int count = static_cast<int>(shared_bytes / sizeof(float4));
              allow(neighbour_kernel, size, shared_bytes);
              cudaLaunchAttribute attribute{};
              const cudaLaunchConfig_t config =
                  cluster_config(static_cast<unsigned>(std::max(most, 1)), size, shared_bytes,
                                 probe.stream(), attribute);
              const double bytes = static_cast<double>(shared_bytes) * kTimes *
                                   static_cast<double>(config.gridDim.x);
              row.samples = gigabytes_per_second(bytes, probe.microseconds([&] {
                check(cudaLaunchKernelEx(&config, neighbour_kernel, count, kTimes, sink));
              }));
              row.note = std::to_string(most) + " clusters at once";
            });
}

}  // namespace

void probe_barriers(Probe& probe) {
  DeviceBuffer sink_memory("sink");
  auto* const sink = sink_memory.reserve_array<float>(1);
  probe.run(plain_row("probe.launch", "empty kernel, one of 1000", "microseconds"),
            [&](throughput::Row& row) {
              per_barrier(row, probe.microseconds([&] {
                for (int i = 0; i < kBarriers; ++i) {
                  kernels::launch(empty_kernel, dim3(1), dim3(32), 0, probe.stream());
                }
              }));
            });
  probe.run(plain_row("probe.grid_barrier", "one block a multiprocessor", "microseconds"),
            [&](throughput::Row& row) {
              cudaLaunchAttribute attribute{};
              attribute.id = cudaLaunchAttributeCooperative;
              attribute.val.cooperative = 1;
              cudaLaunchConfig_t config{};
              config.gridDim = dim3(static_cast<unsigned>(probe.properties().multiProcessorCount));
              config.blockDim = dim3(256);
              config.stream = probe.stream();
              config.attrs = &attribute;
              config.numAttrs = 1;
              per_barrier(row, probe.microseconds([&] {
                check(cudaLaunchKernelEx(&config, grid_barrier_kernel, kBarriers));
              }));
            });
  if (!probe.has_clusters()) {
    throughput::Row row = plain_row("probe.cluster_barrier", "none", "microseconds");
    probe.run(row, [](throughput::Row& found) { found.note = "this device has no clusters"; });
    return;
  }
  for (const unsigned size : {8U, 16U}) {
    cluster_probes(probe, size, sink);
  }
}

}  // namespace vindex::probe
