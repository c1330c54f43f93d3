#include <vindex/decode/float32_view.hpp>

namespace vindex::decode {

const Encoding& float32_encoding() {
  static const Encoding encoding = plain_encoding(ElementType::kF32);
  return encoding;
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
