// Several small matrices decoded to float64 at once, with their sums, against the host's decoding.
#include "kernels/decode/decode_wide.hpp"

#include "decode/bind_view.hpp"
#include "decode/decode_matrix.hpp"
#include "decode/encoding/encoded_matrix.hpp"
#include "decode/encoding/encoding.hpp"
#include "decode/moments.hpp"
#include "tests/kernels/kernel_fixture.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace vindex::test::decode_wide_test {
namespace {

using namespace kernels;

class WideDecodeKernels : public KernelTest {};

TEST_P(WideDecodeKernels, WeightsAndSumsAreThoseOfEachMatrix) {
  for (const auto& [rows, cols] :
       {std::pair<std::int64_t, std::int64_t>{1, 1}, {3, 30}, {150, 1057}}) {
    constexpr std::int64_t kCount = 3;
    const auto weights = static_cast<std::size_t>(rows * cols);
    std::mt19937 words(5);
    std::vector<std::uint16_t> codes(kCount * weights);
    for (std::uint16_t& code : codes) {  // of bfloat16, from 2^-7 to 2^8, either sign
      code = static_cast<std::uint16_t>((words() & 0x87ffU) + 0x3c00U);
    }
    std::copy_n(codes.begin(), weights, codes.begin() + static_cast<std::ptrdiff_t>(2 * weights));
    decode::EncodedMatrix matrix;
    const decode::Encoding encoding = decode::plain_encoding(decode::ElementType::kBF16);
    matrix.encoding = &encoding;
    matrix.rows = rows;
    matrix.cols = cols;
    matrix.row_stride_bytes = 2 * cols;
    DeviceArray<std::uint16_t> on_device(codes);
    std::vector<decode::DecodeView> views;
    std::vector<float> decoded(kCount * weights);
    for (std::size_t i = 0; i < kCount; ++i) {
      matrix.codes = reinterpret_cast<const std::byte*>(codes.data() + i * weights);
      decode::decode_matrix(matrix, decoded.data() + i * weights, cols);
      views.push_back(decode::decode_view(matrix));
      views.back().codes = reinterpret_cast<const std::uint8_t*>(on_device.data() + i * weights);
    }
    DeviceArray<double> out(kCount * weights);
    DeviceArray<RawMoments> parts(static_cast<std::size_t>(kCount * wide_sum_parts(rows, cols)));
    DeviceArray<RawMoments> moments(kCount);
    decode_wide(encoding, views, out.data(), parts.data(), moments.data(), stream());
    const std::vector<double> got = out.values();
    EXPECT_TRUE(std::equal(decoded.begin(), decoded.end(), got.begin())) << rows << " x " << cols;
    const std::vector<RawMoments> sums = moments.values();
    EXPECT_EQ(sums[0].squares, sums[2].squares) << "the same bits wherever it stands";
    for (std::size_t i = 0; i < kCount; ++i) {
      const std::span<const double> own(got.data() + i * weights, weights);
      double mean = 0.0;
      double squares = 0.0;
      for (const double weight : own) {
        mean += weight / static_cast<double>(weights);
        squares += weight * weight;
      }
      double fourth = 0.0;
      for (const double weight : own) {
        fourth += std::pow(weight - mean, 4.0);
      }
      const RawMoments& raw = sums[i];
      EXPECT_EQ(raw.count, rows * cols);
      EXPECT_EQ(static_cast<double>(raw.first), own[0]);
      EXPECT_NEAR(raw.squares, squares, 1e-13 * squares);
      const decode::Moments central = moments_of(raw);
      EXPECT_NEAR(central.mean, mean, 1e-12 * std::sqrt(squares));
      EXPECT_NEAR(central.m4, fourth, 1e-10 * squares * squares);
      EXPECT_EQ(central.max, *std::max_element(own.begin(), own.end()));
      EXPECT_EQ(central.min, *std::min_element(own.begin(), own.end()));
    }
  }
}

TEST_P(WideDecodeKernels, WhatIsNotFiniteIsCountedAlone) {
  std::vector<float> weights(40 * 30, 2.0F);
  weights[0] = std::numeric_limits<float>::infinity();
  weights[77] = NAN;
  weights[78] = 0.0F;
  const decode::EncodedMatrix matrix = decode::float32_view(weights.data(), 40, 30);
  decode::DecodeView view = decode::decode_view(matrix);
  DeviceArray<float> codes(weights);
  view.codes = reinterpret_cast<const std::uint8_t*>(codes.data());
  DeviceArray<double> out(weights.size());
  DeviceArray<RawMoments> parts(static_cast<std::size_t>(wide_sum_parts(40, 30)));
  DeviceArray<RawMoments> moments(1);
  decode_wide(*matrix.encoding, {&view, 1}, out.data(), parts.data(), moments.data(), stream());
  const RawMoments raw = moments.values()[0];
  EXPECT_EQ(raw.count, 1198);
  EXPECT_EQ(raw.nonfinite, 2);
  EXPECT_EQ(raw.zeros, 1);
  EXPECT_EQ(raw.s1, 2.0 * 1197) << "about 0, as the first weight is not finite";
}

INSTANTIATE_THREAD_ORDERS(WideDecodeKernels);

}  // namespace
}  // namespace vindex::test::decode_wide_test
