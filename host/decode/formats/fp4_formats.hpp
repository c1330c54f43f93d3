// Owns the decoder of FP4 weights outside ggml: two E2M1 codes to a byte along the rows, the low
// nibble first, a scale per group of columns.
//   MXFP4   groups of 32, scales E8M0 (also stored as U8): DeepSeek-V4, compressed-tensors
//           mxfp4-pack-quantized, and gpt-oss, whose blocks [rows, groups, 16 bytes] are such rows
//   NVFP4   groups of 16, scales F8_E4M3, and one float32 for the whole matrix, which multiplies
//           the scales (ModelOpt weight_scale_2) or divides them (compressed-tensors
//           weight_global_scale)
// weight = E2M1[code] * scale, where scale = stored * global or stored / global, rounded first.
// E2M1: 0 .5 1 1.5 2 3 4 6, bit 3 the sign, so code 8 is -0 (ggml's decoders give +0). Sources: OCP
// Microscaling 1.0; openai/gpt-oss gpt_oss/torch/weights.py; compressed-tensors
// compressors/nvfp4/base.py; NVIDIA ModelOpt torch/quantization/qtensor/nvfp4_tensor.py.
//
// Also owns ggml blocks that one float32 in a tensor beside them multiplies: NVFP4's `NAME.scale`,
// the second of ModelOpt's two scales (weight_scale_2), for a matrix or for each expert of a stack.
// weight = block's weight (exact) * factor, one rounding. Source: llama.cpp conversion (NVFP4
// tensors), src/llama-model.cpp (the `.scale` tensors).
#pragma once
#include "decode_view.hpp"
#include "scaled_formats.hpp"

namespace vindex::decode {

/// Value of E2M1 code 0..15, without a branch. Magnitudes from 2 on have their exponent and
/// mantissa in place; 0 and 1 are 0 and 0.5.
VINDEX_HD inline float e2m1_to_float(std::uint32_t code) {
  const std::uint32_t magnitude = code & 7U;
  const std::uint32_t normal = (magnitude << 22U) + (126U << 23U);
  const std::uint32_t small = magnitude * (126U << 23U);
  return bits_as<float>(choose(magnitude < 2U, small, normal) | ((code & 8U) << 28U));
}

struct Fp4PairDecoder {
  static constexpr Scheme kScheme = Scheme::kFp4;
  static constexpr ElementType kType = ElementType::kF4;
  static constexpr int kBits = 0;
  static constexpr int kElements = 2;
  static constexpr int kBytes = 1;

  VINDEX_HD static float group_scale(const DecodeView& view, std::int64_t index) {
    const float scale = load_scale(view, index);
    const std::uint8_t* global = companion(view, CompanionRole::kGlobalScale);
    if (global == nullptr) {
      return scale;
    }
    const auto factor = load_as<float>(global);
    return view.global_divides ? scale / factor : scale * factor;
  }
  VINDEX_HD static float at(const DecodeView& view, std::int64_t row, std::int64_t col) {
    const std::uint8_t byte = view.codes[row * view.row_stride_bytes + col / 2];
    const auto code = static_cast<std::uint32_t>(byte >> (col % 2 * 4)) & 15U;
    return e2m1_to_float(code) * group_scale(view, scale_index(view, row, col));
  }
  VINDEX_HD static void row(const DecodeView& view, std::int64_t row, float* out) {
    const std::uint8_t* codes = view.codes + row * view.row_stride_bytes;
    for_each_scale(view, row, [=, &view](std::int64_t col, std::int64_t count, std::int64_t index) {
      const float scale = group_scale(view, index);
      std::int64_t i = col;
      // Eight at a time: runs begin at whole bytes, and groups are multiples of 16.
      if (i % 2 == 0) {
        for (; i + 8 <= col + count; i += 8) {
          const auto word = load_as<std::uint32_t>(codes + i / 2);
          for (int j = 0; j < 8; ++j) {
            out[i + j] = e2m1_to_float((word >> static_cast<unsigned>(4 * j)) & 15U) * scale;
          }
        }
      }
      for (; i < col + count; ++i) {
        const auto code = static_cast<std::uint32_t>(codes[i / 2] >> (i % 2 * 4)) & 15U;
        out[i] = e2m1_to_float(code) * scale;
      }
    });
  }
};

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
