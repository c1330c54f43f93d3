#include <vindex/core/ceil_divide.hpp>
#include <vindex/core/error.hpp>
#include <vindex/decode/decode_matrix.hpp>
#include <vindex/measure/scaled_input.hpp>

#include <algorithm>
#include <utility>

namespace vindex::measure {
namespace {

class ScaledInput final : public MatrixInput {
 public:
  ScaledInput(std::unique_ptr<MatrixInput> inner, std::vector<double> column_scale)
      : inner_(std::move(inner)), scale_(std::move(column_scale)) {
    expects(static_cast<std::int64_t>(scale_.size()) ==
                (inner_->transposed() ? inner_->rows() : inner_->cols()),
            "make_scaled_input: one factor per column of the matrix");
  }

  const decode::Encoding& encoding() const override { return encoding_; }
  std::int64_t rows() const override { return inner_->rows(); }
  std::int64_t cols() const override { return inner_->cols(); }
  bool transposed() const override { return inner_->transposed(); }
  std::uint64_t sign_flip_key() const override { return inner_->sign_flip_key(); }
  bool in_memory() const override { return false; }

  decode::EncodedMatrix row_slab(std::int64_t first, std::int64_t count) override {
    decode_scaled(inner_->row_slab(first, count), first, 0);
    decode::EncodedMatrix view = view_of(count, cols(), cols());
    view.first_row = first;
    return view;
  }

  decode::EncodedMatrix column_slab(std::int64_t first, std::int64_t count) override {
    // Rows of codes are cut at blocks only: the window is widened to them.
    const std::int64_t unit =
        std::max<std::int64_t>(1, decode::column_granularity(inner_->encoding()));
    const std::int64_t begin = first / unit * unit;
    const std::int64_t end = std::min(cols(), ceil_divide(first + count, unit) * unit);
    decode_scaled(inner_->column_slab(begin, end - begin), 0, begin);
    decode::EncodedMatrix view = view_of(rows(), count, end - begin);
    view.first_col = first;
    view.codes += (first - begin) * static_cast<std::int64_t>(sizeof(float));
    return view;
  }

  void release() override {
    values_ = {};
    inner_->release();
  }

 private:
  /// The weights of `slab`, which begins at (first_row, first_col), into values_.
  void decode_scaled(const decode::EncodedMatrix& slab, std::int64_t first_row,
                     std::int64_t first_col) {
    const auto size = static_cast<std::size_t>(slab.rows * slab.cols);
    if (values_.size() < size) {
      values_ = {};  // not both at once
      values_.resize(size);
    }
    decode::decode_matrix(slab, values_.data(), slab.cols);
    for (std::int64_t r = 0; r < slab.rows; ++r) {
      float* const row = values_.data() + r * slab.cols;
      const double* const scale = scale_.data() + (transposed() ? first_row + r : first_col);
      for (std::int64_t c = 0; c < slab.cols; ++c) {
        row[c] = static_cast<float>(static_cast<double>(row[c]) * scale[transposed() ? 0 : c]);
      }
    }
  }

  decode::EncodedMatrix view_of(std::int64_t rows, std::int64_t cols, std::int64_t stride) const {
    decode::EncodedMatrix view;
    view.encoding = &encoding_;
    view.rows = rows;
    view.cols = cols;
    view.codes = reinterpret_cast<const std::byte*>(values_.data());
    view.row_stride_bytes = stride * static_cast<std::int64_t>(sizeof(float));
    return view;
  }

  std::unique_ptr<MatrixInput> inner_;
  std::vector<double> scale_;
  decode::Encoding encoding_ = decode::plain_encoding(decode::ElementType::kF32);
  std::vector<float> values_;
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
