// Owns the two calls of the interface on a device: room for tiles as memory allows, and the smaller
// tiles that are tried when it is exhausted.
#include "cuda_forward.hpp"

#include "core/integers.hpp"
#include "core/process/stop.hpp"
#include "kernels/device/device_versions.hpp"
#include "kernels/device/pinned_pool.hpp"
#include "kernels/forward/linear_run.hpp"

#include <algorithm>
#include <string>
#include <vector>

namespace vindex::kernels {

namespace {

/// Host memory beside arrays: handles, pageable staging of the driver.
constexpr std::uint64_t kHostBytes = 16ULL << 20U;
/// Of the memory that is free at the start, kept for the library (32 MiB per handle and stream on
/// Hopper), for kernels, which are loaded when they are first launched, and for the driver.
constexpr std::uint64_t kReserve = 512ULL << 20U;

std::uint64_t free_memory() {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  check(cudaMemGetInfo(&free_bytes, &total_bytes));
  return free_bytes - std::min<std::uint64_t>(free_bytes / 4, kReserve);
}

/// Errors: expects() on a call that names what is not there.
LinearShape shape_of(const LinearCall& call) {
  MatrixInput& weight = *call.weight;
  const bool columns = weight.transposed();
  const std::int64_t rows = columns ? weight.cols() : weight.rows();
  expects(call.tokens >= 0 && call.count >= 0 && call.step >= 1 && call.first >= 0,
          "linear: counts that are none");
  expects(call.count == 0 ||
              (call.first < rows && call.count - 1 <= (rows - 1 - call.first) / call.step),
          "linear: logical rows inside the weight");
  return {.encoding = &weight.encoding(),
          .tokens = call.tokens,
          .depth = columns ? weight.rows() : weight.cols(),
          .count = call.count,
          .step = call.step,
          .columns = columns,
          .bias = call.bias != nullptr};
}

/// y of no columns.
void fill_with_bias(const LinearCall& call) {
  for (std::int64_t t = 0; t < call.tokens; ++t) {
    for (std::int64_t i = 0; i < call.count; ++i) {
      call.y[t * call.y_stride + i] = call.bias == nullptr ? 0.0F : call.bias[i];
    }
  }
}

class CudaForward final : public ForwardBackend {
 public:
  CudaForward(std::int32_t device, const ForwardKernels& kernels, std::uint64_t memory_limit)
      : device_(on(device)), kernels_(kernels) {
    check(cudaGetDeviceProperties(&properties_, device));
    tests_ = try_forward_kernels(kernels_, streams_.blas.get(), streams_.products.get());
    std::string failed;
    for (const SelfTestInfo& test : tests_) {
      failed += test.passed ? "" : (failed.empty() ? "" : "; ") + test.name + ": " + test.detail;
    }
    if (!failed.empty()) {
      throw DeviceError("E-SELF-TEST", "forward passes failed their self-test on " +
                                           std::string(properties_.name) + " (" + failed +
                                           "); --backend cpu runs them on the host");
    }
    const std::uint64_t there = free_memory();
    budget_ = memory_limit == 0 ? there : std::min(there, memory_limit);
  }
  /// Handles and memory are given back on their own device, whatever the thread used before.
  ~CudaForward() override { (void)cudaSetDevice(device_); }
  CudaForward(const CudaForward&) = delete;
  CudaForward& operator=(const CudaForward&) = delete;

  BackendInfo info() const override {
    BackendInfo info;
    info.name = "cuda";
    info.device = properties_.name;
    info.libraries = cuda_versions();
    info.libraries.push_back("cuBLAS " + library_version(&cublasGetProperty));
    info.self_tests = tests_;
    return info;
  }

  std::unique_ptr<StagingBuffer> make_staging(std::size_t bytes) override {
    (void)on(device_);
    return pinned_.take(bytes);
  }

  std::uint64_t linear_bytes(std::int64_t rows, std::int64_t cols) const override {
    return kHostBytes + most_slab_bytes(rows, cols);
  }
  std::uint64_t attention_bytes(const AttentionCall& /*call*/) const override { return kHostBytes; }

  void linear(const LinearCall& call, const std::stop_token& stop) override {
    LinearShape shape = shape_of(call);
    if (shape.tokens == 0 || shape.count == 0) {
      return;
    }
    if (shape.depth == 0) {
      fill_with_bias(call);
      return;
    }
    (void)on(device_);
    throw_if_stopped(stop);
    shape.companion_bytes = companion_copy_bytes(call.weight->row_slab(0, 1));
    LinearTile tile;
    const auto bytes = [&](std::uint64_t budget) {
      tile = plan_linear(shape, budget);
      return linear_device_bytes(shape, tile);
    };
    Arena arena = reserve(bytes);
    const LinearArrays arrays = cut_linear(shape, tile, arena);
    LinearRun(streams_, kernels_, call, shape, tile, arrays).run(stop);
  }

  void attention(const AttentionCall& call, const std::stop_token& stop) override {
    expects(call.tokens >= 0 && call.kv_heads > 0 && call.heads > 0 &&
                call.heads % call.kv_heads == 0 && call.head_dim >= 0 && call.value_dim >= 0,
            "attention: heads that share keys evenly");
    if (call.tokens == 0 || call.value_dim == 0) {
      return;
    }
    (void)on(device_);
    const AttentionShape shape{.tokens = call.tokens,
                               .heads = call.heads,
                               .kv_heads = call.kv_heads,
                               .head_dim = call.head_dim,
                               .value_dim = call.value_dim};
    AttentionTile tile;
    const auto bytes = [&](std::uint64_t budget) {
      tile = plan_attention(shape, budget);
      return attention_device_bytes(shape, tile);
    };
    Arena arena = reserve(bytes);
    const AttentionArrays arrays = cut_attention(shape, tile, arena);
    if (call.sinks != nullptr) {
      copy({.to = arrays.sinks, .from = call.sinks, .width = call.heads, .rows = 1},
           cudaMemcpyHostToDevice);
    }
    for (std::int64_t head = 0; head < call.kv_heads; head += tile.kv_heads) {
      attend_heads(
          call,
          {.kv_heads = std::min(tile.kv_heads, call.kv_heads - head), .queries = tile.queries},
          head, arrays, stop);
    }
  }

 private:
  /// Waits for what was begun, however a call ends: its host memory may go.
  class Ending {
   public:
    explicit Ending(const ForwardStreams& streams) : streams_(streams) {}
    ~Ending() { streams_.wait(); }
    Ending(const Ending&) = delete;
    Ending& operator=(const Ending&) = delete;

   private:
    const ForwardStreams& streams_;
  };

  static std::int32_t on(std::int32_t device) {
    check(cudaSetDevice(device));
    return device;
  }
  cudaStream_t stream() const { return streams_.products.get(); }
  void copy(const RowCopy& rows, cudaMemcpyKind kind) const { copy_rows(rows, kind, stream()); }

  /// Memory for what `bytes(budget)` plans. Where somebody else uses the device too, plans are made
  /// for half as much until one fits. Errors: OutOfMemory of the plan.
  template <typename Bytes>
  Arena reserve(Bytes bytes) {
    for (std::uint64_t budget = budget_;; budget /= 2) {
      const std::uint64_t wanted = bytes(budget);
      try {
        return {memory_.reserve(wanted), wanted};
      } catch (const OutOfMemory&) {
        if (budget == 0) {
          throw;
        }
      }
    }
  }

  /// The heads of keys [first, first + tile.kv_heads) and the queries that use them.
  void attend_heads(const AttentionCall& call, const AttentionTile& tile, std::int64_t first,
                    const AttentionArrays& arrays, const std::stop_token& stop) {
    const Ending ending(streams_);
    const std::int64_t group = call.heads / call.kv_heads;
    const std::int64_t heads = tile.kv_heads * group;
    const auto send_heads = [&](float* to, const float* from, std::int64_t dim) {
      copy({.to = to,
            .to_stride = tile.kv_heads * dim,
            .from = from + first * dim,
            .from_stride = call.kv_heads * dim,
            .width = tile.kv_heads * dim,
            .rows = call.tokens},
           cudaMemcpyHostToDevice);
    };
    throw_if_stopped(stop);
    send_heads(arrays.k, call.k, call.head_dim);
    send_heads(arrays.v, call.v, call.value_dim);
    for (std::int64_t token = 0; token < call.tokens; token += tile.queries) {
      throw_if_stopped(stop);
      const std::int64_t queries = std::min(tile.queries, call.tokens - token);
      copy({.to = arrays.q,
            .to_stride = heads * call.head_dim,
            .from = call.q + (token * call.heads + first * group) * call.head_dim,
            .from_stride = call.heads * call.head_dim,
            .width = heads * call.head_dim,
            .rows = queries},
           cudaMemcpyHostToDevice);
      kernels_.attention({.q = arrays.q,
                          .k = arrays.k,
                          .v = arrays.v,
                          .out = arrays.out,
                          .first_query = token,
                          .queries = queries,
                          .heads = heads,
                          .group = group,
                          .head_dim = call.head_dim,
                          .value_dim = call.value_dim,
                          .scale = static_cast<float>(call.scale),
                          .soft_cap = static_cast<float>(call.soft_cap),
                          .window = call.window,
                          .sinks = call.sinks == nullptr ? nullptr : arrays.sinks + first * group},
                         stream());
      copy({.to = call.out + (token * call.heads + first * group) * call.value_dim,
            .to_stride = call.heads * call.value_dim,
            .from = arrays.out,
            .from_stride = heads * call.value_dim,
            .width = heads * call.value_dim,
            .rows = queries},
           cudaMemcpyDeviceToHost);
      check(cudaStreamSynchronize(stream()));  // a stop is looked at after every launch
    }
  }

  std::int32_t device_;
  ForwardKernels kernels_;
  cudaDeviceProp properties_{};
  ForwardStreams streams_;
  PinnedPool pinned_;
  DeviceBuffer memory_{"a forward pass"};
  std::uint64_t budget_ = 0;
  std::vector<SelfTestInfo> tests_;
};

}  // namespace

std::unique_ptr<ForwardBackend> make_cuda_forward(std::int32_t device,
                                                  const ForwardKernels& kernels,
                                                  std::uint64_t memory_limit) {
  return std::make_unique<CudaForward>(device, kernels, memory_limit);
}

}  // namespace vindex::kernels
