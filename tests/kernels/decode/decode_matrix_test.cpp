// Small kernels around decoding, on values small enough to check by hand.
#include "kernels/decode/decode_matrix.hpp"

#include "core/philox.hpp"
#include "decode/bind_view.hpp"
#include "decode/decode_matrix.hpp"
#include "decode/encode/encoded_sample.hpp"
#include "kernels/decode/decode_wide.hpp"
#include "tests/kernels/kernel_fixture.hpp"

#include <bit>
#include <cmath>
#include <deque>
#include <random>

namespace vindex::test::decode_matrix_test {
namespace {

class DecodeKernels : public KernelTest {
 protected:
  /// Decodes `matrix` on the device and by the host's loops; bits must agree, and nothing may be
  /// written beside the matrix. `shift` bytes keep codes and companions from being aligned.
  void expect_bits_of_the_host(const decode::EncodedMatrix& matrix, std::size_t shift,
                               std::int64_t out_stride) {
    std::deque<DeviceArray<std::uint8_t>> copies;
    const auto copied = [&](const std::uint8_t* bytes, std::size_t count) {
      std::vector<std::uint8_t> shifted(shift + count);
      std::copy_n(bytes, count, shifted.begin() + static_cast<std::ptrdiff_t>(shift));
      return copies.emplace_back(shifted).data() + shift;
    };
    decode::DecodeView view = decode::decode_view(matrix);
    const auto code_bytes =
        decode::code_bytes(*matrix.encoding, static_cast<std::uint64_t>(matrix.rows),
                           static_cast<std::uint64_t>(matrix.cols));
    view.codes = copied(view.codes, static_cast<std::size_t>(code_bytes.value()));
    for (std::int32_t i = 0; i < matrix.companion_count; ++i) {
      const decode::Companion& companion = matrix.companions[static_cast<std::size_t>(i)];
      auto& pointer = view.companions[decode::role_index(companion.role)];
      if (pointer != nullptr) {
        pointer = copied(pointer, companion.bytes.size());
      }
    }
    const auto size = static_cast<std::size_t>(matrix.rows * out_stride);
    std::vector<float> wanted(size, kUntouched);
    DeviceArray<float> out(wanted);
    decode::decode_matrix(matrix, wanted.data(), out_stride);
    kernels::decode_matrix(*matrix.encoding, view, out.data(), out_stride, stream());
    const std::vector<float> got = out.values();
    for (std::size_t i = 0; i < size; ++i) {
      if (!(std::isnan(got[i]) && std::isnan(wanted[i])) &&
          std::bit_cast<std::uint32_t>(got[i]) != std::bit_cast<std::uint32_t>(wanted[i])) {
        ADD_FAILURE() << matrix.encoding->label << ", shift " << shift << ", stride " << out_stride
                      << ": place " << i << " is " << got[i] << ", wanted " << wanted[i];
        return;
      }
    }
    expect_wide_weights(*matrix.encoding, view, wanted, out_stride);
  }

 private:
  /// The same weights by decode_wide().
  void expect_wide_weights(const decode::Encoding& encoding, const decode::DecodeView& view,
                           const std::vector<float>& wanted, std::int64_t stride) {
    DeviceArray<double> out(static_cast<std::size_t>(view.rows * view.cols));
    DeviceArray<kernels::RawMoments> parts(
        static_cast<std::size_t>(kernels::wide_sum_parts(view.rows, view.cols)));
    DeviceArray<kernels::RawMoments> moments(1);
    kernels::decode_wide(encoding, {&view, 1}, out.data(), parts.data(), moments.data(), stream());
    const std::vector<double> got = out.values();
    for (std::int64_t i = 0; i < view.rows * view.cols; ++i) {
      const float value = wanted[static_cast<std::size_t>(i / view.cols * stride + i % view.cols)];
      const double wide = got[static_cast<std::size_t>(i)];
      if (!(std::isnan(wide) && std::isnan(value)) && wide != static_cast<double>(value)) {
        ADD_FAILURE() << encoding.label << ": weight " << i << " is " << wide << ", wanted "
                      << value;
        return;
      }
    }
  }

  static constexpr float kUntouched = -12345.0F;
};

TEST_P(DecodeKernels, EveryFormatGivesTheBitsOfTheHost) {
  std::mt19937 random(7);
  const auto fill = [&](auto values, auto, auto) {
    for (std::uint8_t& value : values) {
      value = static_cast<std::uint8_t>(random());
    }
  };
  for (const decode::FormatRow& row : decode::format_rows()) {
    // Groups of 16 and 18: runs that share their scale, and runs that do not.
    for (const std::int32_t group : {16, 18}) {
      for (const decode::SampleShape& shape : decode::shapes_of(row, 11, 134, group)) {
        const decode::EncodedSample sample(shape, 0, fill);
        const std::int64_t cols = sample.matrix().cols;
        expect_bits_of_the_host(sample.matrix(), 0, (cols + 3) / 4 * 4);
        expect_bits_of_the_host(sample.matrix(), 1, cols + 1);
      }
    }
  }
}

TEST_P(DecodeKernels, EveryCodeOfEightAndSixteenBitsGivesTheBitsOfTheHost) {
  const auto count_up = [](auto values, decode::CompanionRole role, decode::ElementType type) {
    const bool is_wide = type == decode::ElementType::kF16 || type == decode::ElementType::kBF16 ||
                         type == decode::ElementType::kI16 || type == decode::ElementType::kU16;
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<std::uint8_t>(is_wide && i % 2 == 0 ? i / 2 : is_wide ? i / 512 : i);
    }
    if (role != decode::CompanionRole::kCount) {  // a subnormal scale: nothing is flushed to zero
      const float scale = 0x1.8p-130F;
      for (std::size_t i = 0; i + sizeof(scale) <= values.size(); i += sizeof(scale)) {
        std::memcpy(values.data() + i, &scale, sizeof(scale));
      }
    }
  };
  for (const decode::FormatRow& row : decode::format_rows()) {
    const bool is_small = row.scheme == decode::Scheme::kFp8Block ||
                          (row.scheme == decode::Scheme::kPlain && row.elements == 1);
    if (!is_small) {
      continue;
    }
    for (const decode::SampleShape& shape : decode::shapes_of(row, 256, 256, 16)) {
      const decode::EncodedSample sample(shape, 0, count_up);
      expect_bits_of_the_host(sample.matrix(), 0, sample.matrix().cols);
    }
  }
}

TEST_P(DecodeKernels, WidenKeepsEveryValue) {
  const std::vector<float> values = {0.0F, -1.5F, 1e-42F, 3e38F};
  DeviceArray<float> in(values);
  DeviceArray<double> out(values.size());
  kernels::widen(in.data(), static_cast<std::int64_t>(values.size()), out.data(), stream());
  EXPECT_EQ(out.values(), std::vector<double>(values.begin(), values.end()));
}

TEST_P(DecodeKernels, SignsComeFromTheStreamOfTheWholeMatrix) {
  constexpr std::int64_t kRows = 3;
  constexpr std::int64_t kCols = 50;
  DeviceArray<float> values(std::vector<float>(kRows * kCols, 2.0F));
  const kernels::SignFlip flip = {.key = 77,
                                  .draw = 3,
                                  .transposed = false,
                                  .whole_rows = 9,
                                  .whole_cols = 60,
                                  .first_row = 4,
                                  .first_col = 10};
  kernels::flip_signs(values.data(), kRows, kCols, flip, stream());
  const std::vector<float> got = values.values();
  for (std::int64_t row = 0; row < kRows; ++row) {
    for (std::int64_t col = 0; col < kCols; ++col) {
      const auto element = static_cast<std::uint64_t>((row + 4) * 60 + col + 10);
      EXPECT_EQ(got[static_cast<std::size_t>(row * kCols + col)],
                philox_bit(77, element, 3) ? -2.0F : 2.0F);
    }
  }
}

INSTANTIATE_THREAD_ORDERS(DecodeKernels);

}  // namespace
}  // namespace vindex::test::decode_matrix_test
