// Owns reading sixteen neighbouring weights of a row by one thread, with one load of their codes
// and one look-up of their scale where alignment and group size allow: the formats that the operand
// kernel reads by itself (OperandSource). Bits are those of the decoders.
#pragma once

#include "gram_plan.hpp"

#include "decode/formats/decode_view.hpp"

#include <cuda_runtime.h>

#include <cstdint>

namespace vindex::kernels::device {

inline constexpr int kRun = 16;

/// `a / b` by the 32-bit instruction where both fit, as they do for all but the largest matrices.
__device__ inline std::int64_t divide(std::int64_t a, std::int64_t b) {
  return ((a | b) >> 32) == 0 ? static_cast<std::int64_t>(static_cast<std::uint32_t>(a) /
                                                          static_cast<std::uint32_t>(b))
                              : a / b;
}

/// Scale of the weight (row, col), as scale_index() finds it.
__device__ inline float scale_at(const decode::DecodeView& view, std::int64_t row,
                                 std::int64_t col) {
  return decode::load_scale(view, divide(view.first_row + row, view.block_rows) * view.scale_cols +
                                      divide(view.first_col + col, view.block_cols));
}

/// True where columns [col, col + kRun) share a scale, col being a multiple of kRun.
__device__ inline bool run_shares_scale(const decode::DecodeView& view) {
  return (view.first_col % kRun == 0 && view.block_cols % kRun == 0) ||
         view.first_col % view.block_cols + view.cols <= view.block_cols;
}

/// `kWords` (2, or a multiple of 4) words of codes to registers, in loads of 8 or 16 bytes where
/// aligned.
template <int kWords>
__device__ inline void load_codes(const std::uint8_t* from, std::uint32_t (&words)[kWords]) {
  constexpr int kBytes = kWords == 2 ? 8 : 16;
  if (reinterpret_cast<std::uintptr_t>(from) % kBytes != 0) {
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      words[i] = decode::load_as<std::uint32_t>(from + 4 * i);
    }
  } else if constexpr (kWords == 2) {
    const uint2 loaded = __ldg(reinterpret_cast<const uint2*>(from));
    words[0] = loaded.x;
    words[1] = loaded.y;
  } else {
#pragma unroll
    for (int i = 0; i < kWords; i += 4) {
      const uint4 loaded = __ldg(reinterpret_cast<const uint4*>(from) + i / 4);
      words[i] = loaded.x;
      words[i + 1] = loaded.y;
      words[i + 2] = loaded.z;
      words[i + 3] = loaded.w;
    }
  }
}

/// How one source stores a weight: kBits of a code, `value_of` the code without its scale. A code
/// is `kBits` wide, lowest bits first.
template <OperandSource Source>
struct SourceFormat;
template <>
struct SourceFormat<OperandSource::kF32> {
  static constexpr int kBits = 32;
  static constexpr bool kScaled = false;
  __device__ static float value_of(std::uint32_t code) { return bits_as<float>(code); }
};
template <>
struct SourceFormat<OperandSource::kF16> {
  static constexpr int kBits = 16;
  static constexpr bool kScaled = false;
  __device__ static float value_of(std::uint32_t code) {
    return decode::half_to_float(static_cast<std::uint16_t>(code));
  }
};
template <>
struct SourceFormat<OperandSource::kBF16> {
  static constexpr int kBits = 16;
  static constexpr bool kScaled = false;
  __device__ static float value_of(std::uint32_t code) {
    return decode::bfloat16_to_float(static_cast<std::uint16_t>(code));
  }
};
template <>
struct SourceFormat<OperandSource::kScaledE4M3> {
  static constexpr int kBits = 8;
  static constexpr bool kScaled = true;
  __device__ static float value_of(std::uint32_t code) {
    return decode::e4m3_to_float(static_cast<std::uint8_t>(code));
  }
};
template <>
struct SourceFormat<OperandSource::kScaledInt4> {
  static constexpr int kBits = 4;
  static constexpr bool kScaled = true;
  __device__ static float value_of(std::uint32_t code) {
    return static_cast<float>(static_cast<int>(code & 15U) - 8);
  }
};

/// Weight (row, col) without its scale.
template <OperandSource Source>
__device__ inline float code_at(const decode::DecodeView& view, std::int64_t row,
                                std::int64_t col) {
  using Format = SourceFormat<Source>;
  const std::uint8_t* codes = view.codes + row * view.row_stride_bytes;
  if constexpr (Format::kBits == 32) {
    return Format::value_of(decode::load_as<std::uint32_t>(codes + 4 * col));
  } else if constexpr (Format::kBits == 16) {
    return Format::value_of(decode::load_as<std::uint16_t>(codes + 2 * col));
  } else if constexpr (Format::kBits == 8) {
    return Format::value_of(codes[col]);
  } else {
    return Format::value_of(static_cast<std::uint32_t>(codes[col / 2] >> (col % 2 * 4)));
  }
}

template <OperandSource Source>
__device__ inline float weight_at(const decode::DecodeView& view, std::int64_t row,
                                  std::int64_t col) {
  const float code = code_at<Source>(view, row, col);
  if constexpr (SourceFormat<Source>::kScaled) {
    return code * scale_at(view, row, col);
  } else {
    return code;
  }
}

/// Columns [col, col + kRun) of `row`, all inside the view, without their scales; col is a multiple
/// of kRun.
template <OperandSource Source>
__device__ inline void read_codes(const decode::DecodeView& view, std::int64_t row,
                                  std::int64_t col, float (&out)[kRun]) {
  using Format = SourceFormat<Source>;
  constexpr int kPerWord = 32 / Format::kBits;
  std::uint32_t words[kRun / kPerWord];
  load_codes(view.codes + row * view.row_stride_bytes + col * Format::kBits / 8, words);
#pragma unroll
  for (int i = 0; i < kRun; ++i) {
    out[i] = Format::value_of(words[i / kPerWord] >>
                              static_cast<unsigned>(Format::kBits * (i % kPerWord)));
  }
}

/// The same, with their scales.
template <OperandSource Source>
__device__ inline void read_weights(const decode::DecodeView& view, std::int64_t row,
                                    std::int64_t col, float (&out)[kRun]) {
  read_codes<Source>(view, row, col, out);
  if constexpr (SourceFormat<Source>::kScaled) {
    if (run_shares_scale(view)) {
      const float scale = scale_at(view, row, col);
#pragma unroll
      for (int i = 0; i < kRun; ++i) {
        out[i] *= scale;
      }
    } else {
#pragma unroll
      for (int i = 0; i < kRun; ++i) {
        out[i] *= scale_at(view, row, col + i);
      }
    }
  }
}

}  // namespace vindex::kernels::device
