#include "decoded_input.hpp"

#include <vindex/core/error.hpp>
#include <vindex/core/integers.hpp>
#include <vindex/decode/decode_matrix.hpp>
#include <vindex/decode/encoding.hpp>

#include <algorithm>

namespace vindex::measure {

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
      std::max<std::int64_t>(1, kStripValues / std::max<std::int64_t>(view.cols, 1));
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

}  // namespace vindex::measure
