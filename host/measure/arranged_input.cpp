#include "decoded_input.hpp"

#include <vindex/core/error.hpp>
#include <vindex/core/integers.hpp>
#include <vindex/measure/arranged_input.hpp>
#include <vindex/measure/scaled_input.hpp>

#include <algorithm>
#include <utility>

namespace vindex::measure {
namespace {

class DifferenceInput final : public DecodedInput {
 public:
  DifferenceInput(MatrixInput& a, MatrixInput& b)
      : DecodedInput(a.rows(), a.cols(), a.transposed(), a.sign_flip_key()),
        a_(a),
        b_(b),
        turned_(a.transposed() != b.transposed()) {
    expects(turned_ ? a.rows() == b.cols() && a.cols() == b.rows()
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
    if (!turned_) {
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
        b_, window.turned(),
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
  bool turned_;
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
  const bool as_stored = part.input->transposed() == part.turned;
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
    const bool as_stored = part.input->transposed() == part.turned;
    for_each_strip(
        *part.input, as_stored ? window : window.turned(),
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
      sizeof(float) * static_cast<std::uint64_t>(std::max({kStripValues, rows, cols}));
  return scaled_slab_bytes(rows, cols) + 2 * strip;
}

}  // namespace vindex::measure
