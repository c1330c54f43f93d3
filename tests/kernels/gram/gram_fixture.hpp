// Owns what the tests of the Gram kernels share: small encoded matrices in host memory, the same on
// the device, and the float64 Gram matrix of their decoded weights.
#pragma once
#include "decode/bind_view.hpp"
#include "decode/decode_matrix.hpp"
#include "decode/encode/encode.hpp"
#include "decode/formats/decode_view.hpp"
#include "decode/moments.hpp"
#include "kernels/gram/gram_batch.hpp"
#include "kernels/route/wrong_entries.hpp"
#include "tests/kernels/kernel_fixture.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <vector>

namespace vindex::test {

/// An encoded matrix that owns its bytes; the decoded weights beside them.
class HostMatrix {
 public:
  using Weight = std::function<float(std::int64_t row, std::int64_t col)>;

  /// `weight` encoded by encode_matrix().
  static HostMatrix encoded(const decode::Encoding& encoding, std::int64_t rows, std::int64_t cols,
                            const Weight& weight) {
    std::vector<float> values(static_cast<std::size_t>(rows * cols));
    for (std::int64_t i = 0; i < rows * cols; ++i) {
      values[static_cast<std::size_t>(i)] = weight(i / cols, i % cols);
    }
    const auto size = decode::encoded_size(encoding, rows, cols).value();
    std::vector<std::byte> codes(size.code_bytes);
    std::vector<std::byte> scales(size.scale_bytes);
    decode::encode_matrix(encoding, values.data(), rows, cols, cols, codes, scales);
    const bool fp8 = encoding.scheme == decode::Scheme::kFp8Block;
    return HostMatrix(encoding, rows, cols, std::move(codes), std::move(scales),
                      fp8 ? decode::ElementType::kF32 : decode::ElementType::kBF16);
  }

  HostMatrix(const decode::Encoding& encoding, std::int64_t rows, std::int64_t cols,
             std::vector<std::byte> codes, std::vector<std::byte> scales,
             decode::ElementType scale_type)
      : encoding_(std::make_unique<decode::Encoding>(encoding)),
        codes_(std::move(codes)),
        scales_(std::move(scales)) {
    matrix_.encoding = encoding_.get();
    matrix_.rows = rows;
    matrix_.cols = cols;
    matrix_.codes = codes_.data();
    matrix_.row_stride_bytes = static_cast<std::int64_t>(
        decode::row_bytes(encoding, static_cast<std::uint64_t>(cols)).value());
    if (!scales_.empty()) {
      const auto blocks = [](std::int64_t length, std::int64_t block) {
        return block == 0 ? 1 : (length + block - 1) / block;
      };
      matrix_.companions[0] = {.role = decode::CompanionRole::kScale,
                               .type = scale_type,
                               .rows = blocks(rows, encoding.block_rows),
                               .cols = blocks(cols, encoding.block_cols),
                               .bytes = scales_};
      matrix_.companion_count = 1;
    }
    weights_.resize(static_cast<std::size_t>(rows * cols));
    decode::decode_matrix(matrix_, weights_.data(), cols);
  }

  const decode::EncodedMatrix& matrix() const { return matrix_; }
  const decode::Encoding& encoding() const { return *encoding_; }
  kernels::GramShape shape() const { return {matrix_.rows, matrix_.cols}; }
  const std::vector<float>& weights() const { return weights_; }
  const std::vector<std::byte>& codes() const { return codes_; }
  const std::vector<std::byte>& scales() const { return scales_; }
  double weight(std::int64_t row, std::int64_t col) const {
    return static_cast<double>(weights_[static_cast<std::size_t>(row * matrix_.cols + col)]);
  }

  kernels::OperandPlan plan(bool may_round = false) const {
    return kernels::choose_operands(*encoding_, decode::decode_view(matrix_), may_round);
  }

  /// p x p over the short side, float64, of the decoded weights.
  std::vector<double> gram() const {
    const std::int64_t p = shape().short_side();
    const bool rows = shape().contracts_rows();
    std::vector<double> out(static_cast<std::size_t>(p * p));
    for (std::int64_t k = 0; k < shape().long_side(); ++k) {
      for (std::int64_t i = 0; i < p; ++i) {
        const double left = rows ? weight(k, i) : weight(i, k);
        for (std::int64_t j = 0; j <= i; ++j) {
          out[static_cast<std::size_t>(i * p + j)] += left * (rows ? weight(k, j) : weight(j, k));
        }
      }
    }
    for (std::int64_t i = 0; i < p; ++i) {
      for (std::int64_t j = 0; j < i; ++j) {
        out[static_cast<std::size_t>(j * p + i)] = out[static_cast<std::size_t>(i * p + j)];
      }
    }
    return out;
  }

 private:
  std::unique_ptr<decode::Encoding> encoding_;
  std::vector<std::byte> codes_, scales_;
  decode::EncodedMatrix matrix_;
  std::vector<float> weights_;
};

/// A matrix on the device; `view` points there.
class DeviceMatrix {
 public:
  explicit DeviceMatrix(const HostMatrix& host, std::size_t misalignment = 0)
      : codes_(shifted(host.codes(), misalignment)),
        scales_(host.scales()),
        view_(decode::decode_view(host.matrix())) {
    view_.codes = reinterpret_cast<const std::uint8_t*>(codes_.data()) + misalignment;
    if (!host.scales().empty()) {
      view_.companions[decode::role_index(decode::CompanionRole::kScale)] =
          reinterpret_cast<const std::uint8_t*>(scales_.data());
    }
  }
  const decode::DecodeView& view() const { return view_; }

 private:
  static std::vector<std::byte> shifted(const std::vector<std::byte>& bytes, std::size_t by) {
    std::vector<std::byte> out(bytes.size() + by);
    std::copy(bytes.begin(), bytes.end(), out.begin() + static_cast<std::ptrdiff_t>(by));
    return out;
  }
  DeviceArray<std::byte> codes_, scales_;
  decode::DecodeView view_;
};

/// The multiplication kernels that run here.
inline std::vector<kernels::ProductKernel> product_kernels() {
  cudaDeviceProp properties{};
  kernels::check(cudaGetDeviceProperties(&properties, 0));
  const kernels::ProductKernel best =
      kernels::choose_product_kernel(properties.major, properties.minor);
  std::vector<kernels::ProductKernel> all;
  if (is_tried("mma")) {
    all.push_back(kernels::ProductKernel::kWarp);
  }
  if (is_tried("wgmma") && (is_emulated() || best == kernels::ProductKernel::kWarpgroup)) {
    all.push_back(kernels::ProductKernel::kWarpgroup);
  }
  if (is_tried("clusters") && (is_emulated() || best == kernels::ProductKernel::kWarpgroup)) {
    all.push_back(kernels::ProductKernel::kWarpgroupPairs);
  }
  return all;
}

/// What form_grams() left on the device.
struct Grams {
  std::int64_t p = 0, order = 0;
  std::vector<float> values;
  std::vector<kernels::GramFacts> facts;

  float at(std::size_t matrix, std::int64_t i, std::int64_t j) const {
    return values[matrix * static_cast<std::size_t>(order * order) +
                  static_cast<std::size_t>(i * order + j)];
  }
  /// The entry of the true Gram matrix.
  double entry(std::size_t matrix, std::int64_t i, std::int64_t j) const {
    return std::ldexp(static_cast<double>(at(matrix, i, j)), facts[matrix].gram_exponent);
  }
};

struct FormOptions {
  bool may_round = false;
  bool min_workspace = false;
  std::size_t misalignment = 0;
  std::vector<std::uint64_t> sign_flip_keys = {};
  bool transposed = false;
  std::uint64_t sign_flip_draw = 0;
  bool native = false;
};

inline Grams form(const std::vector<const HostMatrix*>& matrices, kernels::ProductKernel kernel,
                  cudaStream_t stream, const FormOptions& options = {}) {
  const HostMatrix& first = *matrices.front();
  const kernels::GramShape shape = first.shape();
  const kernels::OperandPlan plan = first.plan(options.may_round);
  std::vector<std::unique_ptr<DeviceMatrix>> on_device;
  std::vector<decode::DecodeView> views;
  for (const HostMatrix* matrix : matrices) {
    on_device.push_back(std::make_unique<DeviceMatrix>(*matrix, options.misalignment));
    views.push_back(on_device.back()->view());
  }
  const std::size_t bytes =
      options.min_workspace
          ? kernels::min_gram_workspace_bytes(shape, plan)
          : kernels::gram_workspace_bytes(shape, plan, static_cast<std::int64_t>(views.size()));
  DeviceArray<std::byte> workspace(bytes);
  DeviceArray<float> grams(views.size() * static_cast<std::size_t>(shape.gram_elements()));
  DeviceArray<kernels::GramFacts> facts(views.size());
  kernels::form_grams(first.encoding(), plan,
                      {.views = views,
                       .sign_flip_keys = options.sign_flip_keys,
                       .transposed = options.transposed,
                       .sign_flip_draw = options.sign_flip_draw,
                       .native_operands = options.native},
                      workspace.data(), bytes, kernel, grams.data(), facts.data(), stream);
  return {shape.short_side(), shape.order(), grams.values(), facts.values()};
}

/// Moments that a kernel found of a matrix are those of its weights; returns these.
inline decode::Moments expect_moments(const kernels::GramFacts& facts, const HostMatrix& matrix) {
  const decode::EncodedMatrix& encoded = matrix.matrix();
  const decode::Moments got = kernels::moments_of(facts);
  const decode::Moments wanted =
      decode::moments_of(matrix.weights().data(), encoded.rows, encoded.cols, encoded.cols);
  EXPECT_EQ(got.count, wanted.count);
  EXPECT_EQ(got.zeros, wanted.zeros);
  EXPECT_EQ(got.nonfinite, wanted.nonfinite);
  EXPECT_EQ(got.min, wanted.min);
  EXPECT_EQ(got.max, wanted.max);
  const double deviation = decode::standard_deviation(wanted);
  EXPECT_NEAR(got.sum_squares, wanted.sum_squares, 1e-13 * wanted.sum_squares);
  EXPECT_NEAR(got.mean, wanted.mean, 1e-13 * (deviation + std::abs(wanted.mean)));
  EXPECT_NEAR(got.m2, wanted.m2, 1e-12 * wanted.m2);
  EXPECT_NEAR(got.m3, wanted.m3, 1e-12 * wanted.m2 * deviation);
  EXPECT_NEAR(got.m4, wanted.m4, 1e-12 * wanted.m4);
  return wanted;
}

/// ||G - reference||_F / ||reference||_F of matrix `index`; also finds asymmetry and padding that
/// is not zero. Where it is beyond all rounding, prints where entries are wrong.
inline double relative_error(const Grams& grams, std::size_t index,
                             const std::vector<double>& reference) {
  double error = 0.0;
  double norm = 0.0;
  double largest = 0.0;
  for (const double wanted : reference) {
    largest = std::max(largest, std::abs(wanted));
  }
  constexpr double kBeyondRounding = 1e-3;
  kernels::WrongEntries wrong;
  for (std::int64_t i = 0; i < grams.order; ++i) {
    for (std::int64_t j = 0; j < grams.order; ++j) {
      if (i >= grams.p || j >= grams.p) {
        EXPECT_EQ(grams.at(index, i, j), 0.0F) << i << ", " << j;
        continue;
      }
      EXPECT_EQ(grams.at(index, i, j), grams.at(index, j, i)) << i << ", " << j;
      const double wanted = reference[static_cast<std::size_t>(i * grams.p + j)];
      const double difference = grams.entry(index, i, j) - wanted;
      error += difference * difference;
      norm += wanted * wanted;
      if (!(std::abs(difference) <= kBeyondRounding * largest)) {
        wrong.add(i, j, grams.entry(index, i, j), wanted);
      }
    }
  }
  if (!wrong.none()) {
    std::printf("matrix %zu of %lld: %s\n", index, static_cast<long long>(grams.p),
                wrong.text().c_str());
  }
  return norm == 0.0 ? std::sqrt(error) : std::sqrt(error / norm);
}

/// Normal weights from a seed.
inline HostMatrix::Weight gaussian(std::uint32_t seed, float deviation = 0.02F) {
  auto random = std::make_shared<std::mt19937>(seed);
  auto normal = std::make_shared<std::normal_distribution<float>>(0.0F, deviation);
  return [random, normal](std::int64_t, std::int64_t) { return (*normal)(*random); };
}

}  // namespace vindex::test
