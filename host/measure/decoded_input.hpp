// Owns what inputs that present the weights of other inputs share: those are decoded a strip of
// rows at a time, and what is made of them lies in one buffer of float32.
#pragma once

#include <vindex/measure/backend.hpp>

#include <cstdint>
#include <functional>
#include <vector>

namespace vindex::measure {

/// Weights of a strip: 128 KiB of float32 stay in a core's cache.
inline constexpr std::int64_t kStripValues = 1 << 15;

/// Whole rows or whole columns of a stored matrix.
struct Window {
  std::int64_t first_row = 0, rows = 0, first_col = 0, cols = 0;
  Window turned() const { return {first_col, cols, first_row, rows}; }
};

/// An input whose slabs are float32 in a buffer of its own, valid until the next one. It says that
/// it is not in memory, so that back ends ask for slabs and not for all at once.
class DecodedInput : public MatrixInput {
 public:
  DecodedInput(std::int64_t rows, std::int64_t cols, bool transposed, std::uint64_t key)
      : rows_(rows), cols_(cols), transposed_(transposed), key_(key) {}

  const decode::Encoding& encoding() const override;
  std::int64_t rows() const override { return rows_; }
  std::int64_t cols() const override { return cols_; }
  bool transposed() const override { return transposed_; }
  std::uint64_t sign_flip_key() const override { return key_; }
  bool in_memory() const override { return false; }
  decode::EncodedMatrix row_slab(std::int64_t first, std::int64_t count) override {
    return filled({first, count, 0, cols_});
  }
  decode::EncodedMatrix column_slab(std::int64_t first, std::int64_t count) override {
    return filled({0, rows_, first, count});
  }
  void release() override;

 protected:
  /// Takes rows [first, first + rows) of a window: window.cols floats each, `stride` from one to
  /// the next.
  using TakeStrip = std::function<void(std::int64_t first, std::int64_t rows, const float* values,
                                       std::int64_t stride)>;

  /// Puts the weights of `window` to `out`, window.cols floats from row to row.
  virtual void fill(const Window& window, float* out) = 0;
  /// Decodes `window` of `input` a few rows at a time, in their order. Errors: those of `input`.
  void for_each_strip(MatrixInput& input, const Window& window, const TakeStrip& take);

 private:
  decode::EncodedMatrix filled(const Window& window);

  std::int64_t rows_, cols_;
  bool transposed_;
  std::uint64_t key_;
  std::vector<float> values_, strip_;
};

}  // namespace vindex::measure
