// Owns these inputs: those that they are made of are decoded a strip of rows at a time, and what
// comes out lies in one buffer of float32.
#include "derived_input.hpp"

#include "backend.hpp"

#include "core/integers.hpp"
#include "decode/decode_matrix.hpp"
#include "decode/encoding/code_layout.hpp"
#include "decode/encoding/encoded_matrix.hpp"
#include "decode/encoding/encoding.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace vindex {

namespace {

/// Weights of a strip: 128 KiB of float32 stay in a core's cache.
constexpr std::int64_t kDecodedStrip = 1 << 15;

/// Whole rows or whole columns of a stored matrix.
struct Window {
  std::int64_t first_row = 0, rows = 0, first_col = 0, cols = 0;
  Window transposed() const { return {first_col, cols, first_row, rows}; }
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

const decode::Encoding& DecodedInput::encoding() const { return decode::float32_encoding(); }

void DecodedInput::release() {
  values_ = {};
  strip_ = {};
}

void DecodedInput::for_each_strip(MatrixInput& input, const Window& window, const TakeStrip& take) {
  decode::EncodedMatrix view;
  std::int64_t skipped = 0;
  if (window.cols == input.cols()) {
    view = input.row_slab(window.first_row, window.rows);
  } else {
    expects(window.rows == input.rows(), "a window of whole rows or whole columns");
    // Rows of codes are cut at blocks only: the window is widened to them.
    const std::int64_t unit =
        std::max<std::int64_t>(1, decode::column_granularity(input.encoding()));
    const std::int64_t begin = window.first_col / unit * unit;
    const std::int64_t end =
        std::min(input.cols(), ceil_divide(window.first_col + window.cols, unit) * unit);
    view = input.column_slab(begin, end - begin);
    skipped = window.first_col - begin;
  }
  const std::int64_t step =
      std::max<std::int64_t>(1, kDecodedStrip / std::max<std::int64_t>(view.cols, 1));
  for (std::int64_t row = 0; row < view.rows; row += step) {
    const std::int64_t count = std::min(step, view.rows - row);
    if (strip_.size() < static_cast<std::size_t>(count * view.cols)) {
      strip_.resize(static_cast<std::size_t>(count * view.cols));
    }
    decode::decode_matrix(decode::row_slab(view, row, count), strip_.data(), view.cols);
    take(row, count, strip_.data() + skipped, view.cols);
  }
}

decode::EncodedMatrix DecodedInput::filled(const Window& window) {
  const auto size = static_cast<std::size_t>(window.rows * window.cols);
  if (values_.size() < size) {
    values_ = {};  // not both at once
    values_.resize(size);
  }
  fill(window, values_.data());
  decode::EncodedMatrix view = decode::float32_view(values_.data(), window.rows, window.cols);
  view.first_row = window.first_row;
  view.first_col = window.first_col;
  return view;
}

class DifferenceInput final : public DecodedInput {
 public:
  DifferenceInput(MatrixInput& a, MatrixInput& b)
      : DecodedInput(a.rows(), a.cols(), a.transposed(), a.sign_flip_key()),
        a_(a),
        b_(b),
        transposed_(a.transposed() != b.transposed()) {
    expects(transposed_ ? a.rows() == b.cols() && a.cols() == b.rows()
                        : a.rows() == b.rows() && a.cols() == b.cols(),
            "make_difference_input: two matrices of one shape");
  }

 private:
  void fill(const Window& window, float* out) override {
    for_each_strip(
        a_, window,
        [&](std::int64_t first, std::int64_t rows, const float* values, std::int64_t stride) {
          for (std::int64_t r = 0; r < rows; ++r) {
            std::copy_n(values + r * stride, window.cols, out + (first + r) * window.cols);
          }
        });
    if (!transposed_) {
      for_each_strip(
          b_, window,
          [&](std::int64_t first, std::int64_t rows, const float* values, std::int64_t stride) {
            for (std::int64_t r = 0; r < rows; ++r) {
              subtract_from(values + r * stride, window.cols, out + (first + r) * window.cols);
            }
          });
      return;
    }
    for_each_strip(
        b_, window.transposed(),
        [&](std::int64_t first, std::int64_t rows, const float* values, std::int64_t stride) {
          for (std::int64_t r = 0; r < window.rows; ++r) {
            float* const line = out + r * window.cols + first;
            for (std::int64_t c = 0; c < rows; ++c) {
              line[c] = values[c * stride + r] - line[c];
            }
          }
        });
  }

  static void subtract_from(const float* b, std::int64_t count, float* a) {
    for (std::int64_t i = 0; i < count; ++i) {
      a[i] = b[i] - a[i];
    }
  }

  MatrixInput& a_;
  MatrixInput& b_;
  bool transposed_;
};

class RotaryInput final : public DecodedInput {
 public:
  RotaryInput(MatrixInput& inner, std::int64_t height, RotaryRows to)
      : DecodedInput(inner.rows(), inner.cols(), false, inner.sign_flip_key()),
        inner_(inner),
        height_(height),
        // Where an inner row goes is found by the order it comes from.
        from_(to == RotaryRows::kHalves ? RotaryRows::kPairs : RotaryRows::kHalves) {
    expects(!inner.transposed() && height > 0 && height % 2 == 0 && inner.rows() % height == 0,
            "make_rotary_input: rows that are whole heads");
  }

 private:
  void fill(const Window& window, float* out) override {
    // Rows stay within their head: whole heads hold all that is wanted.
    const std::int64_t begin = window.first_row / height_ * height_;
    const std::int64_t end = ceil_divide(window.first_row + window.rows, height_) * height_;
    for_each_strip(
        inner_, {begin, end - begin, window.first_col, window.cols},
        [&](std::int64_t first, std::int64_t rows, const float* values, std::int64_t stride) {
          for (std::int64_t r = 0; r < rows; ++r) {
            const std::int64_t inner = begin + first + r;
            const std::int64_t at = inner / height_ * height_ +
                                    rotary_row(inner % height_, height_, from_) - window.first_row;
            if (at >= 0 && at < window.rows) {
              std::copy_n(values + r * stride, window.cols, out + at * window.cols);
            }
          }
        });
  }

  MatrixInput& inner_;
  std::int64_t height_;
  RotaryRows from_;
};

/// Rows and columns of what a part stands for.
std::pair<std::int64_t, std::int64_t> sides_of(const StackedPart& part) {
  const bool as_stored = part.input->transposed() == part.transposed;
  return as_stored ? std::pair(part.input->rows(), part.input->cols())
                   : std::pair(part.input->cols(), part.input->rows());
}

std::int64_t rows_of(const std::vector<StackedPart>& parts) {
  std::int64_t rows = 0;
  for (const StackedPart& part : parts) {
    rows += sides_of(part).first;
  }
  return rows;
}

class StackedInput final : public DecodedInput {
 public:
  explicit StackedInput(std::vector<StackedPart> parts)
      : DecodedInput(rows_of(parts), sides_of(parts.front()).second, false,
                     parts.front().input->sign_flip_key()),
        parts_(std::move(parts)) {
    for (const StackedPart& part : parts_) {
      expects(sides_of(part).second == cols(), "make_stacked_input: parts of one width");
    }
  }

 private:
  void fill(const Window& window, float* out) override {
    std::int64_t at = 0;
    for (const StackedPart& part : parts_) {
      const std::int64_t end = at + sides_of(part).first;
      const std::int64_t first = std::max(at, window.first_row);
      const std::int64_t last = std::min(end, window.first_row + window.rows);
      if (first < last) {
        fill_part(part, {first - at, last - first, window.first_col, window.cols},
                  out + (first - window.first_row) * window.cols);
      }
      at = end;
    }
  }

  void fill_part(const StackedPart& part, const Window& window, float* out) {
    const bool as_stored = part.input->transposed() == part.transposed;
    for_each_strip(
        *part.input, as_stored ? window : window.transposed(),
        [&](std::int64_t first, std::int64_t rows, const float* values, std::int64_t stride) {
          for (std::int64_t r = 0; r < (as_stored ? rows : window.rows); ++r) {
            float* const line =
                out + (as_stored ? (first + r) * window.cols : r * window.cols + first);
            if (as_stored) {
              std::copy_n(values + r * stride, window.cols, line);
              continue;
            }
            for (std::int64_t c = 0; c < rows; ++c) {
              line[c] = values[c * stride + r];
            }
          }
        });
  }

  std::vector<StackedPart> parts_;
};

}  // namespace

std::unique_ptr<MatrixInput> make_difference_input(MatrixInput& a, MatrixInput& b) {
  return std::make_unique<DifferenceInput>(a, b);
}

std::int64_t rotary_row(std::int64_t row, std::int64_t height, RotaryRows to) {
  const std::int64_t half = height / 2;
  return to == RotaryRows::kPairs ? row % 2 * half + row / 2 : row % half * 2 + row / half;
}

std::unique_ptr<MatrixInput> make_rotary_input(MatrixInput& inner, std::int64_t height,
                                               RotaryRows to) {
  return std::make_unique<RotaryInput>(inner, height, to);
}

std::unique_ptr<MatrixInput> make_stacked_input(std::vector<StackedPart> parts) {
  expects(!parts.empty(), "make_stacked_input: at least one part");
  return std::make_unique<StackedInput>(std::move(parts));
}

std::uint64_t arranged_slab_bytes(std::int64_t rows, std::int64_t cols) {
  const std::uint64_t strip =
      sizeof(float) * static_cast<std::uint64_t>(std::max({kDecodedStrip, rows, cols}));
  return scaled_slab_bytes(rows, cols) + 2 * strip;
}

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

}  // namespace vindex
