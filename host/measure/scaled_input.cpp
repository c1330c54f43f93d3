#include "decoded_input.hpp"

#include <vindex/core/error.hpp>
#include <vindex/measure/scaled_input.hpp>

#include <algorithm>
#include <utility>

namespace vindex::measure {
namespace {

class ScaledInput final : public DecodedInput {
 public:
  ScaledInput(std::unique_ptr<MatrixInput> inner, std::vector<double> column_scale)
      : DecodedInput(inner->rows(), inner->cols(), inner->transposed(), inner->sign_flip_key()),
        inner_(std::move(inner)),
        scale_(std::move(column_scale)) {
    expects(static_cast<std::int64_t>(scale_.size()) == (transposed() ? rows() : cols()),
            "make_scaled_input: one factor per column of the matrix");
  }

  void release() override {
    DecodedInput::release();
    inner_->release();
  }

 private:
  void fill(const Window& window, float* out) override {
    for_each_strip(
        *inner_, window,
        [&](std::int64_t first, std::int64_t rows, const float* values, std::int64_t stride) {
          for (std::int64_t r = first; r < first + rows; ++r, values += stride) {
            float* const line = out + r * window.cols;
            const double* const scale =
                scale_.data() + (transposed() ? window.first_row + r : window.first_col);
            for (std::int64_t c = 0; c < window.cols; ++c) {
              line[c] =
                  static_cast<float>(static_cast<double>(values[c]) * scale[transposed() ? 0 : c]);
            }
          }
        });
  }

  std::unique_ptr<MatrixInput> inner_;
  std::vector<double> scale_;
};

}  // namespace

std::unique_ptr<MatrixInput> make_scaled_input(std::unique_ptr<MatrixInput> inner,
                                               std::vector<double> column_scale) {
  return std::make_unique<ScaledInput>(std::move(inner), std::move(column_scale));
}

std::uint64_t scaled_slab_bytes(std::int64_t rows, std::int64_t cols) {
  constexpr std::uint64_t kSlabBytes = 32U << 20U;
  constexpr std::uint64_t kPositions = 1024;
  constexpr std::uint64_t kWidening = 1024;
  const auto shorter = static_cast<std::uint64_t>(std::min(rows, cols));
  const auto longer = static_cast<std::uint64_t>(std::max(rows, cols));
  const std::uint64_t slab = std::max({kSlabBytes, kPositions * shorter * sizeof(float),
                                       std::uint64_t{8} * longer * sizeof(float)});
  return std::min(longer * shorter * sizeof(float), slab + kWidening * shorter * sizeof(float));
}

}  // namespace vindex::measure
