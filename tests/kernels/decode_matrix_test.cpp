// Small kernels around decoding, on values small enough to check by hand.
#include "decode_matrix.hpp"

#include "kernels/kernel_fixture.hpp"

#include <vindex/core/philox.hpp>

namespace vindex::test {
namespace {

class DecodeKernels : public KernelTest {};

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
                philox_bit(77, element) ? -2.0F : 2.0F);
    }
  }
}

INSTANTIATE_THREAD_ORDERS(DecodeKernels);

}  // namespace
}  // namespace vindex::test
