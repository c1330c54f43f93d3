// Between host and device: pinned, registered and pageable memory, alone, in both directions at
// once, and beside kernels that compute or move memory.
#include "probe.hpp"

#include <cstdlib>
#include <cstring>
#include <memory>

namespace vindex::probe {

namespace {

constexpr std::size_t kBytes = 256U << 20U;
constexpr std::size_t kExpertBytes = 7168U * 2048U;  // one fp8 matrix of the contract's goals

struct PinnedDeleter {
  void operator()(void* memory) const noexcept { (void)cudaFreeHost(memory); }
};

std::unique_ptr<void, PinnedDeleter> pinned(std::size_t bytes) {
  void* memory = nullptr;
  check(cudaHostAlloc(&memory, bytes, cudaHostAllocDefault));
  return std::unique_ptr<void, PinnedDeleter>(memory);
}

/// Ordinary memory, in place and without pattern; registered with the driver where asked.
class HostMemory {
 public:
  explicit HostMemory(bool is_registered)
      : memory_(std::aligned_alloc(4096, kBytes)), is_registered_(is_registered) {
    if (memory_ == nullptr) {
      throw std::bad_alloc();
    }
    auto* const words = static_cast<std::uint64_t*>(memory_);
    for (std::size_t i = 0; i < kBytes / sizeof(std::uint64_t); ++i) {
      words[i] = 0x9E3779B97F4A7C15U * (i + 1);
    }
    if (is_registered_) {
      const cudaError_t status = cudaHostRegister(memory_, kBytes, cudaHostRegisterDefault);
      if (status != cudaSuccess) {
        std::free(memory_);
        check(status);
      }
    }
  }
  ~HostMemory() {
    if (is_registered_) {
      (void)cudaHostUnregister(memory_);
    }
    std::free(memory_);
  }
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;
  void* data() const { return memory_; }

 private:
  void* memory_;
  bool is_registered_;
};

}  // namespace

void probe_transfers(Probe& probe) {
  DeviceBuffer device_memory("transfers");
  DeviceBuffer second_memory("transfers back");
  auto* const device = device_memory.reserve_array<float>(kBytes / sizeof(float));
  auto* const second = second_memory.reserve_array<float>(kBytes / sizeof(float));
  fill_random(device, kBytes / sizeof(float), 1, probe.stream());
  fill_random(second, kBytes / sizeof(float), 2, probe.stream());
  const auto host = pinned(kBytes);
  const auto host_back = pinned(kBytes);
  const HostMemory ordinary(false);
  std::memcpy(host.get(), ordinary.data(), kBytes);
  const kernels::Stream other = kernels::make_stream();
  const int multiprocessors = probe.properties().multiProcessorCount;
  double alone = 1e4;  // microseconds

  const auto to_device = [&](const void* from, std::size_t bytes) {
    check(cudaMemcpyAsync(device, from, bytes, cudaMemcpyHostToDevice, probe.stream()));
  };
  probe.run(plain_row("probe.h2d", "pinned, 256 MiB", "gb_per_s"), [&](throughput::Row& row) {
    const auto times = probe.microseconds([&] { to_device(host.get(), kBytes); });
    alone = throughput::median(times);
    row.samples = gigabytes_per_second(kBytes, times);
  });
  probe.run(plain_row("probe.h2d", "pinned, 14.7 MB", "gb_per_s"), [&](throughput::Row& row) {
    row.samples = gigabytes_per_second(
        kExpertBytes, probe.microseconds([&] { to_device(host.get(), kExpertBytes); }));
  });
  probe.run(plain_row("probe.h2d", "pinned, 16 of 14.7 MB", "gb_per_s"), [&](throughput::Row& row) {
    row.samples = gigabytes_per_second(16.0 * kExpertBytes, probe.microseconds([&] {
      for (std::size_t i = 0; i < 16; ++i) {
        to_device(static_cast<const std::byte*>(host.get()) + i * kExpertBytes, kExpertBytes);
      }
    }));
  });
  probe.run(plain_row("probe.h2d", "registered, 256 MiB", "gb_per_s"), [&](throughput::Row& row) {
    const HostMemory registered(true);
    row.samples = gigabytes_per_second(
        kBytes, probe.microseconds([&] { to_device(registered.data(), kBytes); }));
  });
  probe.run(plain_row("probe.h2d", "pageable, 256 MiB", "gb_per_s"), [&](throughput::Row& row) {
    row.samples = gigabytes_per_second(
        kBytes, probe.microseconds([&] { to_device(ordinary.data(), kBytes); }));
  });
  probe.run(plain_row("probe.d2h", "pinned, 256 MiB", "gb_per_s"), [&](throughput::Row& row) {
    row.samples = gigabytes_per_second(kBytes, probe.microseconds([&] {
      check(
          cudaMemcpyAsync(host_back.get(), second, kBytes, cudaMemcpyDeviceToHost, probe.stream()));
    }));
  });
  // What runs beside lasts about three times as long as the copy alone, so it covers all of it.
  const auto beside = [&](const std::string& route, const std::function<void()>& start_beside) {
    probe.run(plain_row("probe.h2d", "pinned, 256 MiB, beside " + route, "gb_per_s"),
              [&](throughput::Row& row) {
                row.samples = gigabytes_per_second(
                    kBytes, probe.microseconds([&] { to_device(host.get(), kBytes); },
                                               [&] {
                                                 check(cudaStreamSynchronize(other.get()));
                                                 start_beside();
                                               }));
                check(cudaStreamSynchronize(other.get()));
              });
  };
  beside("a copy back", [&] {
    for (int i = 0; i < 3; ++i) {
      check(cudaMemcpyAsync(host_back.get(), second, kBytes, cudaMemcpyDeviceToHost, other.get()));
    }
  });
  // 4 blocks of 256 threads on each multiprocessor, 8 multiply-adds a round: about 64 cycles.
  const double rounds = 3.0 * alone * 1e-6 * 1.5e9 / 64.0;
  beside("arithmetic", [&] {
    keep_computing(static_cast<std::int64_t>(rounds), device, multiprocessors, other.get());
  });
  beside("device copies", [&] {
    const double one = 2.0 * kBytes / 2e6;  // microseconds at 2 TB/s
    copy_on_device(second, second + kBytes / sizeof(float) / 2, kBytes / sizeof(float) / 2,
                   static_cast<int>(3.0 * alone / one * 2.0) + 1, other.get());
  });
  check(cudaStreamSynchronize(other.get()));
}

}  // namespace vindex::probe
