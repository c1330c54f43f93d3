// Owns the timing of a probe: a warm-up, samples between two events until the time is up, and the
// small kernels that fill memory, copy it or keep the device busy meanwhile.
#include "probe.hpp"

#include "kernels/device/launch.hpp"

#include <cstdio>

namespace vindex::probe {

namespace {

__device__ std::uint64_t scrambled(std::uint64_t value) {
  // The finaliser of SplitMix64 (Steele, Lea, Flood 2014).
  value = (value ^ (value >> 30U)) * 0xBF58476D1CE4E5B9ULL;
  value = (value ^ (value >> 27U)) * 0x94D049BB133111EBULL;
  return value ^ (value >> 31U);
}

__global__ void fill_kernel(float* values, std::int64_t count, std::uint64_t seed) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += step) {
    const std::uint64_t bits = scrambled(seed + 0x9E3779B97F4A7C15ULL * (i + 1));
    values[i] = static_cast<float>(static_cast<std::int32_t>(bits >> 32U)) * 0x1p-31F;
  }
}

__global__ void compute_kernel(std::int64_t iterations, float* sink) {
  float sums[8];
  for (int i = 0; i < 8; ++i) {
    sums[i] = static_cast<float>(threadIdx.x + static_cast<unsigned>(i)) * 0.001F;
  }
  for (std::int64_t round = 0; round < iterations; ++round) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      sums[i] = __fmaf_rn(sums[i], 0.999F, 0.001F);
    }
  }
  float sum = 0.0F;
  for (int i = 0; i < 8; ++i) {
    sum += sums[i];
  }
  if (sum == -1.0F) {  // never; keeps the sums
    *sink = sum;
  }
}

__global__ void copy_kernel(const float4* from, float4* to, std::int64_t count, int times) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (int round = 0; round < times; ++round) {
    for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
         i < count; i += step) {
      to[i] = from[i];
    }
  }
}

}  // namespace

Event make_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreate(&event));
  return Event(event);
}

Probe::Probe(int device, double seconds, int samples,
             std::function<void(const throughput::Row&)> emit)
    : deadline_(throughput::wall_seconds() + seconds), samples_(samples), emit_(std::move(emit)) {
  check(cudaSetDevice(device));
  check(cudaGetDeviceProperties(&properties_, device));
  stream_ = kernels::make_stream();
}

std::vector<double> Probe::microseconds(const std::function<void()>& work,
                                        const std::function<void()>& prepare) {
  const Event start = make_event();
  const Event end = make_event();
  return throughput::take_samples({.samples = samples_, .case_seconds = 5.0}, [&] {
    if (prepare) {
      prepare();
    }
    check(cudaEventRecord(start.get(), stream()));
    work();
    check(cudaEventRecord(end.get(), stream()));
    check(cudaEventSynchronize(end.get()));
    check(cudaGetLastError());
    float milliseconds = 0.0F;
    check(cudaEventElapsedTime(&milliseconds, start.get(), end.get()));
    return 1e3 * static_cast<double>(milliseconds);
  });
}

void Probe::run(throughput::Row row, const std::function<void(throughput::Row&)>& fill) {
  if (throughput::wall_seconds() > deadline_) {
    row.note = "not run: the time limit was reached";
  } else {
    // Said before it is begun: what hangs is known by name.
    std::fprintf(stderr, "%s %s %lldx%lld batch %lld\n", row.name.c_str(), row.route.c_str(),
                 static_cast<long long>(row.rows), static_cast<long long>(row.cols),
                 static_cast<long long>(row.batch));
    try {
      fill(row);
    } catch (const std::exception& error) {
      row.samples.clear();
      row.note = error.what();
    }
  }
  emit_(row);
}

throughput::Row plain_row(const std::string& name, const std::string& route,
                          const std::string& unit) {
  return {.name = name, .route = route, .backend = "cuda", .encoding = "none", .unit = unit};
}

std::vector<double> gigabytes_per_second(double bytes, std::vector<double> microseconds) {
  for (double& value : microseconds) {
    value = 1e-3 * bytes / value;
  }
  return microseconds;
}

std::string number(double value) {
  // nvcc cannot check the formats of fmt.
  char text[32] = {};
  (void)std::snprintf(text, sizeof(text), "%.4g", value);
  return text;
}

void fill_random(float* values, std::int64_t count, std::uint64_t seed, cudaStream_t stream) {
  kernels::launch(fill_kernel, dim3(1024), dim3(256), 0, stream, values, count, seed);
}

void keep_computing(std::int64_t iterations, float* sink, int multiprocessors,
                    cudaStream_t stream) {
  kernels::launch(compute_kernel, dim3(static_cast<unsigned>(multiprocessors) * 4), dim3(256), 0,
                  stream, iterations, sink);
}

void copy_on_device(const float* from, float* to, std::int64_t count, int times,
                    cudaStream_t stream) {
  kernels::launch(copy_kernel, dim3(2048), dim3(256), 0, stream,
                  reinterpret_cast<const float4*>(from), reinterpret_cast<float4*>(to), count / 4,
                  times);
}

}  // namespace vindex::probe
