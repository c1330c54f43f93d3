// Owns what the probes of a GPU share: the device, a time limit, timing by events, rows as they are
// found. Each group of probes runs in a process of its own (main.cpp), so that a broken context or
// a call that never returns ends one group and not the run.
#pragma once

#include "kernels/device/handles.hpp"
#include "throughput/report.hpp"
#include "throughput/sampling.hpp"

#include <cuda_runtime.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace vindex::probe {

using kernels::check;
using kernels::DeviceBuffer;

struct EventDeleter {
  using pointer = cudaEvent_t;
  void operator()(cudaEvent_t event) const noexcept { (void)cudaEventDestroy(event); }
};
using Event = std::unique_ptr<cudaEvent_t, EventDeleter>;
Event make_event();

/// What the group `stages` times.
struct StageChoice {
  std::int64_t rows = 7168;
  std::int64_t cols = 2048;
  std::int64_t batch = 0;                    ///< 0: a matrix per multiprocessor
  std::vector<std::string> only;             ///< of stage_names(); empty: all
  std::vector<int> sweeps = {7, 9, 12, 14};  ///< of the chase, under way at once
  std::vector<std::int64_t> strip_rows;  ///< of the band's strips; empty: those that are planned
};
/// "gram", "band", ...: what StageChoice::only may hold.
std::vector<std::string> stage_names();

/// Matrices that the groups `values` and `svd` give to cuSOLVER, whose batched solver takes up to
/// 2 GiB of Gram matrices.
struct LibraryChoice {
  struct Case {
    std::int64_t rows, cols, batch;
  };
  std::vector<Case> cases = {{7168, 2048, 64}, {1024, 1024, 96},  {512, 1024, 96},
                             {7168, 2048, 16}, {7168, 2048, 127}, {1024, 1024, 384},
                             {512, 1024, 768}};
};

class Probe {
 public:
  /// Rows go to `emit` as they are found. No case is begun after `seconds`.
  Probe(int device, double seconds, int samples, std::function<void(const throughput::Row&)> emit);

  const cudaDeviceProp& properties() const { return properties_; }
  cudaStream_t stream() const { return stream_.get(); }

  /// Microseconds of `work` on stream() by events, after one warm-up. `prepare` comes before each
  /// and is not timed.
  std::vector<double> microseconds(const std::function<void()>& work,
                                   const std::function<void()>& prepare = {});

  StageChoice stages;
  LibraryChoice libraries;

  /// Runs one case: `fill` gets the row and puts samples into it; what it throws becomes the note.
  /// After the time limit nothing runs and the note says so.
  void run(throughput::Row row, const std::function<void(throughput::Row&)>& fill);

 private:
  cudaDeviceProp properties_{};
  kernels::Stream stream_;
  double deadline_;
  int samples_;
  std::function<void(const throughput::Row&)> emit_;
};

/// A row of the CUDA back end that has no shape.
throughput::Row plain_row(const std::string& name, const std::string& route,
                          const std::string& unit);

/// Turns the microseconds of moving `bytes` into GB/s.
std::vector<double> gigabytes_per_second(double bytes, std::vector<double> microseconds);

/// Four significant digits.
std::string number(double value);

/// Seeded values in [-1, 1) without pattern: zeros would run faster than data.
void fill_random(float* values, std::int64_t count, std::uint64_t seed, cudaStream_t stream);

/// Keeps every multiprocessor at arithmetic alone, for about `iterations` x 8 multiply-adds.
void keep_computing(std::int64_t iterations, float* sink, int multiprocessors, cudaStream_t stream);

/// Copies `count` floats (a multiple of 4) `times` over.
void copy_on_device(const float* from, float* to, std::int64_t count, int times,
                    cudaStream_t stream);

// The groups.
void probe_transfers(Probe& probe);  ///< host and device, alone and beside kernels
void probe_values(Probe& probe);     ///< singular values by cuBLAS's Gram and cuSOLVER's values
void probe_svd(Probe& probe);        ///< singular values by cuSOLVER's batched approximate SVD
void probe_stages(Probe& probe);     ///< every kernel of a spectrum in `default`

}  // namespace vindex::probe
