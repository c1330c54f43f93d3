// Owns ggml blocks that one float32 in a tensor beside them multiplies: NVFP4's `NAME.scale`, the
// second of ModelOpt's two scales (weight_scale_2), for a matrix or for each expert of a stack.
// weight = block's weight (exact) * factor, one rounding. Source: llama.cpp conversion (NVFP4
// tensors), src/llama-model.cpp (the `.scale` tensors).
#pragma once

#include <vindex/decode/decode_view.hpp>

namespace vindex::decode {

template <typename Format>
struct FactoredBlockDecoder {
  static constexpr Scheme kScheme = Scheme::kFactoredBlocks;
  static constexpr ElementType kType = Format::kType;
  static constexpr int kBits = 0;
  static constexpr int kElements = Format::kElements;
  static constexpr int kBytes = Format::kBytes;

  VINDEX_HD static float factor_of(const DecodeView& view) { return load_scale(view, 0); }
  VINDEX_HD static float at(const DecodeView& view, std::int64_t row, std::int64_t col) {
    return PlainDecoder<Format>::at(view, row, col) * factor_of(view);
  }
  VINDEX_HD static void row(const DecodeView& view, std::int64_t row, float* out) {
    const std::uint8_t* codes = view.codes + row * view.row_stride_bytes;
    const float factor = factor_of(view);
    for (std::int64_t block = 0; block < view.cols / kElements; ++block) {
      float* to = out + block * kElements;
      Format::decode_all(codes + block * Format::kBytes, to);
      for (int i = 0; i < kElements; ++i) {
        to[i] *= factor;
      }
    }
  }
};

}  // namespace vindex::decode
