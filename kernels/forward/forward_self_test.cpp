// Owns the trial of the kernels of forward passes on the device at hand: small inputs with fixed
// seeds, held against the same arithmetic in float64 on the host. A kernel that fails is not used.
#include "forward_kernels.hpp"

#include "kernels/device/handles.hpp"
#include "kernels/route/verdict.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <exception>
#include <limits>
#include <random>

namespace vindex::kernels {

namespace {

/// Relative to the largest result. Sums of a hundred products in float32 are some 1e-7 off, in tf32
/// some 1e-4.
constexpr double kTolerance = 5e-6;

std::vector<float> samples(std::int64_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> out(static_cast<std::size_t>(count));
  for (float& value : out) {
    value = static_cast<float>(static_cast<double>(random()) / 0x1p+31 - 1.0);
  }
  return out;
}

/// A device array of the trials.
class Array {
 public:
  Array(const std::vector<float>& values, cudaStream_t stream) : Array(values.size(), stream) {
    check(cudaMemcpyAsync(data_, values.data(), values.size() * sizeof(float),
                          cudaMemcpyHostToDevice, stream));
    check(cudaStreamSynchronize(stream));
  }
  Array(std::size_t count, cudaStream_t stream)
      : data_(memory_.reserve_array<float>(count)), count_(count), stream_(stream) {}

  float* data() { return data_; }
  std::vector<double> values() const {
    std::vector<float> out(count_);
    check(cudaMemcpyAsync(out.data(), data_, count_ * sizeof(float), cudaMemcpyDeviceToHost,
                          stream_));
    check(cudaStreamSynchronize(stream_));
    return {out.begin(), out.end()};
  }

 private:
  DeviceBuffer memory_{"self-test"};
  float* data_;
  std::size_t count_;
  cudaStream_t stream_;
};

void compare(const std::vector<double>& got, const std::vector<double>& wanted, Verdict& verdict) {
  double largest = 0.0;
  for (const double value : wanted) {
    largest = std::max(largest, std::abs(value));
  }
  verdict.compare(got, wanted, largest, kTolerance);
}

/// Host arrays of one run of attention.
struct AttentionInputs {
  std::vector<float> q, k, v, sinks;
};

/// What `run`, of tokens from 0, should give.
std::vector<double> reference_attention(const AttentionRun& run, const AttentionInputs& inputs) {
  const std::int64_t kv_heads = run.heads / run.group;
  const auto at = [](const std::vector<float>& array, std::int64_t index) {
    return static_cast<double>(array[static_cast<std::size_t>(index)]);
  };
  std::vector<double> out;
  std::vector<double> weights;
  for (std::int64_t row = 0; row < run.queries; ++row) {
    const std::int64_t token = run.first_query + row;
    const std::int64_t first =
        run.window > 0 ? std::max<std::int64_t>(0, token - run.window + 1) : 0;
    for (std::int64_t head = 0; head < run.heads; ++head) {
      const std::int64_t kv_head = head / run.group;
      double largest =
          run.sinks == nullptr ? -std::numeric_limits<double>::infinity() : at(inputs.sinks, head);
      weights.clear();
      for (std::int64_t key = first; key <= token; ++key) {
        double score = 0.0;
        for (std::int64_t d = 0; d < run.head_dim; ++d) {
          score += at(inputs.q, (row * run.heads + head) * run.head_dim + d) *
                   at(inputs.k, (key * kv_heads + kv_head) * run.head_dim + d);
        }
        score *= static_cast<double>(run.scale);
        if (run.soft_cap > 0.0F) {
          const auto cap = static_cast<double>(run.soft_cap);
          score = cap * std::tanh(score / cap);
        }
        weights.push_back(score);
        largest = std::max(largest, score);
      }
      double total = run.sinks == nullptr ? 0.0 : std::exp(at(inputs.sinks, head) - largest);
      for (double& weight : weights) {
        weight = std::exp(weight - largest);
        total += weight;
      }
      for (std::int64_t c = 0; c < run.value_dim; ++c) {
        double sum = 0.0;
        for (std::size_t i = 0; i < weights.size(); ++i) {
          const std::int64_t key = first + static_cast<std::int64_t>(i);
          sum += weights[i] * at(inputs.v, (key * kv_heads + kv_head) * run.value_dim + c);
        }
        out.push_back(sum / total);
      }
    }
  }
  return out;
}

/// Several tiles of queries and keys and a rest of each, heads that share keys, from the middle of
/// a prompt.
void try_attention(const ForwardKernels& kernels, std::int64_t value_dim, bool plain,
                   cudaStream_t stream, Verdict& verdict) {
  AttentionRun run{.first_query = 70,
                   .queries = 75,
                   .heads = 2,
                   .group = 2,
                   .head_dim = 40,
                   .value_dim = value_dim,
                   .scale = 0.4F};
  const std::int64_t tokens = run.first_query + run.queries;
  const AttentionInputs inputs{.q = samples(run.queries * run.heads * run.head_dim, 1),
                               .k = samples(tokens * run.head_dim, 2),
                               .v = samples(tokens * run.value_dim, 3),
                               .sinks = samples(run.heads, 4)};
  Array q(inputs.q, stream);
  Array k(inputs.k, stream);
  Array v(inputs.v, stream);
  Array sinks(inputs.sinks, stream);
  Array out(static_cast<std::size_t>(run.queries * run.heads * value_dim), stream);
  run.q = q.data();
  run.k = k.data();
  run.v = v.data();
  run.out = out.data();
  if (!plain) {
    run.window = 33;
    run.soft_cap = 1.5F;
    run.sinks = sinks.data();
  }
  kernels.attention(run, stream);
  compare(out.values(), reference_attention(run, inputs), verdict);
}

void try_rows(const ForwardKernels& kernels, cudaStream_t stream, Verdict& verdict) {
  constexpr std::int64_t kRows = 5;
  constexpr std::int64_t kStride = 700;
  constexpr std::int64_t kStep = 2;
  constexpr std::int64_t kCount = 300;
  const std::vector<float> from = samples(kRows * kStride, 5);
  const std::vector<float> bias = samples(kCount, 6);
  Array device_from(from, stream);
  Array device_bias(bias, stream);
  Array out(static_cast<std::size_t>(kRows * kCount), stream);
  kernels.gather(device_from.data(), kRows, kStride, kStep, kCount, out.data(), stream);
  kernels.bias(device_bias.data(), kRows, kCount, out.data(), stream);
  std::vector<double> wanted;
  for (std::int64_t r = 0; r < kRows; ++r) {
    for (std::int64_t i = 0; i < kCount; ++i) {
      wanted.push_back(
          static_cast<double>(from[static_cast<std::size_t>(r * kStride + i * kStep)]) +
          static_cast<double>(bias[static_cast<std::size_t>(i)]));
    }
  }
  compare(out.values(), wanted, verdict);
}

/// Products as linear() asks for them: both ways in which weights are stored.
void try_product(cublasHandle_t blas, cudaStream_t stream, Verdict& verdict) {
  constexpr int kTokens = 37;
  constexpr int kDepth = 129;
  constexpr int kCount = 65;
  const std::vector<float> x = samples(std::int64_t{kTokens} * kDepth, 7);
  const std::vector<float> w = samples(std::int64_t{kCount} * kDepth, 8);
  Array device_x(x, stream);
  Array device_w(w, stream);
  Array y(std::size_t{kTokens} * kCount, stream);
  for (const bool columns : {false, true}) {
    const float one = 1.0F;
    const float zero = 0.0F;
    check(cublasSgemm(blas, columns ? CUBLAS_OP_N : CUBLAS_OP_T, CUBLAS_OP_N, kCount, kTokens,
                      kDepth, &one, device_w.data(), columns ? kCount : kDepth, device_x.data(),
                      kDepth, &zero, y.data(), kCount));
    std::vector<double> wanted;
    for (int t = 0; t < kTokens; ++t) {
      for (int i = 0; i < kCount; ++i) {
        double sum = 0.0;
        for (int d = 0; d < kDepth; ++d) {
          sum += static_cast<double>(x[static_cast<std::size_t>(t * kDepth + d)]) *
                 static_cast<double>(
                     w[static_cast<std::size_t>(columns ? d * kCount + i : i * kDepth + d)]);
        }
        wanted.push_back(sum);
      }
    }
    compare(y.values(), wanted, verdict);
  }
}

template <typename Trial>
SelfTestInfo judged(const char* name, Trial make) {
  Verdict verdict;
  try {
    make(verdict);
  } catch (const OutOfMemory&) {
    throw;  // says nothing about a kernel
  } catch (const std::exception& error) {
    return {name, false, error.what()};
  }
  return {name, verdict.passed(), verdict.detail()};
}

}  // namespace

std::vector<SelfTestInfo> try_forward_kernels(const ForwardKernels& kernels, cublasHandle_t blas,
                                              cudaStream_t stream) {
  std::vector<SelfTestInfo> tests;
  // After a fault of a kernel nothing runs any more on this device in this process.
  const auto judge = [&](const char* name, auto make) {
    if (tests.empty() || tests.back().passed || cudaDeviceSynchronize() == cudaSuccess) {
      tests.push_back(judged(name, make));
    }
  };
  judge("float32 products", [&](Verdict& verdict) { try_product(blas, stream, verdict); });
  judge("rows beside products", [&](Verdict& verdict) { try_rows(kernels, stream, verdict); });
  judge("attention", [&](Verdict& verdict) {
    // One width for every variant of the kernel, none a whole one, and one of two passes.
    for (const std::int64_t value_dim : {24, 72, 200, 300}) {
      try_attention(kernels, value_dim, false, stream, verdict);
    }
    try_attention(kernels, 24, true, stream, verdict);
  });
  return tests;
}

}  // namespace vindex::kernels
