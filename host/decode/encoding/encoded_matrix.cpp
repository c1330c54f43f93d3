// Owns finding a companion, and the view of floats in memory.
#include "encoded_matrix.hpp"

namespace vindex::decode {

const Companion* EncodedMatrix::companion(CompanionRole role) const {
  for (std::int32_t i = 0; i < companion_count; ++i) {
    if (companions[static_cast<std::size_t>(i)].role == role) {
      return &companions[static_cast<std::size_t>(i)];
    }
  }
  return nullptr;
}

EncodedMatrix float32_view(const float* values, std::int64_t rows, std::int64_t cols) {
  EncodedMatrix view;
  view.encoding = &float32_encoding();
  view.rows = rows;
  view.cols = cols;
  view.codes = reinterpret_cast<const std::byte*>(values);
  view.row_stride_bytes = cols * static_cast<std::int64_t>(sizeof(float));
  return view;
}

}  // namespace vindex::decode
