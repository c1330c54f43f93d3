// Owns the order of upload and decoding: a matrix is decoded when the event of its copy has come.
#include "encoded_batch.hpp"

#include "decode_matrix.hpp"

namespace vindex::kernels {

EncodedBatch::EncodedBatch(cudaStream_t stream, cudaStream_t copies, DeviceBuffer& memory,
                           const SlotLayout& layout, std::int64_t most)
    : stream_(stream),
      copies_(copies),
      layout_(layout),
      most_(most),
      slots_(
          memory.reserve_array<std::uint8_t>(layout.total_bytes * static_cast<std::size_t>(most))) {
}

void EncodedBatch::begin(std::span<MatrixInput* const> inputs, std::uint64_t slab_bytes) {
  expects(!inputs.empty() && static_cast<std::int64_t>(inputs.size()) <= most_,
          "EncodedBatch: as many matrices as there is room for");
  inputs_ = inputs;
  matrices_.clear();
  ordered_ = 0;
  uploader_.emplace(copies_, slab_bytes);
}

void EncodedBatch::copy(std::size_t count) {
  while (matrices_.size() < count) {
    const std::size_t i = matrices_.size();
    matrices_.push_back(
        uploader_.value().upload(*inputs_[i], layout_, slots_ + i * layout_.total_bytes));
  }
}

void EncodedBatch::upload(std::size_t count) {
  copy(count);
  if (ordered_ < count) {
    uploader_->order_before(stream_);
    ordered_ = matrices_.size();
  }
}

void EncodedBatch::settle() {
  if (uploader_) {
    uploader_->finish();
  }
}

void EncodedBatch::finish() {
  uploader_.value().finish();
  uploader_.reset();
}

void EncodedBatch::decode_rows(std::size_t index, SignDraw flip, std::int64_t first,
                               std::int64_t count, float* decoded) const {
  const DeviceMatrix& matrix = matrices_[index];
  const std::int64_t cols = matrix.view.cols;
  decode_matrix(encoding(), rows_of(encoding(), matrix.view, first, count), decoded, cols, stream_);
  if (flip) {
    flip_signs(decoded, count, cols,
               {.key = matrix.sign_flip_key,
                .draw = flip->value,
                .transposed = matrix.transposed,
                .whole_rows = matrix.view.rows,
                .whole_cols = cols,
                .first_row = first,
                .first_col = 0},
               stream_);
  }
}

void EncodedBatch::decode_rows(std::size_t index, SignDraw flip, std::int64_t first,
                               std::int64_t count, float* decoded, double* wide) const {
  decode_rows(index, flip, first, count, decoded);
  widen(decoded, count * matrices_[index].view.cols, wide, stream_);
}

}  // namespace vindex::kernels
