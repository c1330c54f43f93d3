// Owns how one thread of the device decodes a few neighbouring weights of a row, with the decoders'
// own text, so that the bits are theirs: codes are loaded once and wide where they are aligned, the
// scale they share is found once and without 64-bit divisions, of which one alone costs as much as
// the memory that a weight takes.
#pragma once
#include "decode/formats/decode_view.hpp"
#include "kernels/gram/gram_sources.hpp"

#include <cuda_runtime.h>

#include <cstdint>
#include <limits>
#include <type_traits>

namespace vindex::kernels::device {

/// Neighbouring weights of a thread: one store of 16 bytes, whole lines for a warp.
inline constexpr int kDecodeRun = 4;

/// Bits of a code where codes lie one after the other and the scale (and what stands beside it) is
/// found by scale_index() alone; 0 for other decoders, and where a run does not fill bytes.
template <typename Decoder>
constexpr int code_bits() {
  using decode::Scheme;
  if (Decoder::kScheme == Scheme::kFp8Block || Decoder::kScheme == Scheme::kScaledInt) {
    return 8;
  }
  const bool is_dense =
      Decoder::kScheme == Scheme::kPackedInt || Decoder::kScheme == Scheme::kAffineInt;
  return is_dense && Decoder::kBits % 2 == 0 ? Decoder::kBits : 0;
}

/// Bytes of a run of plain numbers; 0 for other decoders.
template <typename Decoder>
constexpr int plain_run_bytes() {
  if constexpr (Decoder::kScheme == decode::Scheme::kPlain) {
    return Decoder::kElements == 1 ? kDecodeRun * Decoder::kBytes : 0;
  } else {
    return 0;
  }
}

/// Blocks of one tensor whose number of weights is a power of two and a multiple of a run.
template <typename Decoder>
constexpr bool has_blocks() {
  constexpr int kElements = Decoder::kElements;
  return Decoder::kScheme == decode::Scheme::kPlain && kElements % kDecodeRun == 0 &&
         (kElements & (kElements - 1)) == 0;
}

/// Bytes that a thread has in registers.
template <int kBytes>
struct alignas(16) RunBytes {
  std::uint8_t bytes[kBytes];
};

/// One load where `from` is aligned as the run is long (two of them for 32 bytes), else by bytes.
template <int kBytes>
__device__ inline RunBytes<kBytes> load_run(const std::uint8_t* from) {
  using Word = std::conditional_t<
      kBytes % 16 == 0, uint4,
      std::conditional_t<
          kBytes == 8, uint2,
          std::conditional_t<kBytes == 4, std::uint32_t,
                             std::conditional_t<kBytes == 2, std::uint16_t, std::uint8_t>>>>;
  RunBytes<kBytes> run;
  if (kBytes % sizeof(Word) == 0 && reinterpret_cast<std::uintptr_t>(from) % sizeof(Word) == 0) {
#pragma unroll
    for (int i = 0; i < kBytes / static_cast<int>(sizeof(Word)); ++i) {
      const Word word = __ldg(reinterpret_cast<const Word*>(from) + i);
      __builtin_memcpy(run.bytes + i * sizeof(Word), &word, sizeof(Word));
    }
  } else {
#pragma unroll
    for (int i = 0; i < kBytes; ++i) {
      run.bytes[i] = from[i];
    }
  }
  return run;
}

/// Bytes of one number of a type that load_number() knows.
__device__ inline std::int64_t number_bytes(decode::ElementType type) {
  return type == decode::ElementType::kF32                                         ? 4
         : type == decode::ElementType::kF16 || type == decode::ElementType::kBF16 ? 2
                                                                                   : 1;
}

/// What is the same for every row of a thread's columns.
template <typename Decoder>
struct DecodeColumns {
  std::int64_t col;        ///< of the view, a multiple of kDecodeRun
  std::int64_t scale_col;  ///< of the first weight
  bool shares_scale;       ///< all weights of the run have that one

  __device__ DecodeColumns(const decode::DecodeView& view, std::int64_t first) : col(first) {
    scale_col = 0;
    shares_scale = false;
    if constexpr (code_bits<Decoder>() > 0) {
      scale_col = divide(view.first_col + col, view.block_cols);
      const bool packed = Decoder::kScheme == decode::Scheme::kPackedInt;
      const auto has = [&](decode::CompanionRole role) {
        return decode::companion(view, role) != nullptr;
      };
      // Zero points of packed integers lie otherwise, and indices name a group by column.
      const bool plain = !packed || (!has(decode::CompanionRole::kZeroPoint) &&
                                     !has(decode::CompanionRole::kGroupIndex));
      shares_scale =
          plain && divide(view.first_col + col + kDecodeRun - 1, view.block_cols) == scale_col;
    }
  }
};

/// The view of a matrix that begins with row `row` and `columns` and has one scale: the decoder's
/// arithmetic on indices is left to the compiler.
template <typename Decoder>
__device__ inline decode::DecodeView view_of_one_scale(const decode::DecodeView& view,
                                                       const DecodeColumns<Decoder>& columns,
                                                       std::int64_t row) {
  using decode::CompanionRole;
  using decode::Scheme;
  const std::int64_t scale =
      divide(view.first_row + row, view.block_rows) * view.scale_cols + columns.scale_col;
  decode::DecodeView own;
  own.scale_type = view.scale_type;
  own.zero_type = view.zero_type;
  own.companions[decode::role_index(CompanionRole::kScale)] =
      decode::companion(view, CompanionRole::kScale) + scale * number_bytes(view.scale_type);
  if constexpr (Decoder::kScheme == Scheme::kScaledInt || Decoder::kScheme == Scheme::kAffineInt) {
    const std::uint8_t* const zeros = decode::companion(view, CompanionRole::kZeroPoint);
    const std::int64_t bytes =
        Decoder::kScheme == Scheme::kScaledInt ? 1 : number_bytes(view.zero_type);
    own.companions[decode::role_index(CompanionRole::kZeroPoint)] =
        zeros == nullptr ? nullptr : zeros + scale * bytes;
  }
  return own;
}

/// Weights [columns.col, columns.col + kDecodeRun) of `row`, all inside the view.
template <typename Decoder>
__device__ inline void decode_run(const decode::DecodeView& view,
                                  const DecodeColumns<Decoder>& columns, std::int64_t row,
                                  float (&out)[kDecodeRun]) {
  constexpr int kPlainBytes = plain_run_bytes<Decoder>();
  constexpr int kCodeBytes = kDecodeRun * code_bits<Decoder>() / 8;
  constexpr int kLoadBytes = kCodeBytes > 0 ? kCodeBytes : 1;  // an array of none does not compile
  const std::uint8_t* const codes = view.codes + row * view.row_stride_bytes;
  if constexpr (kPlainBytes > 0) {
    const auto run = load_run<kPlainBytes>(codes + columns.col * Decoder::kBytes);
    decode::DecodeView own;
    own.codes = run.bytes;
#pragma unroll
    for (int i = 0; i < kDecodeRun; ++i) {
      out[i] = Decoder::at(own, 0, i);
    }
  } else if (kCodeBytes > 0 && columns.shares_scale) {
    const auto run = load_run<kLoadBytes>(codes + columns.col / kDecodeRun * kCodeBytes);
    decode::DecodeView own = view_of_one_scale(view, columns, row);
    own.codes = run.bytes;
#pragma unroll
    for (int i = 0; i < kDecodeRun; ++i) {
      out[i] = Decoder::at(own, 0, i);
    }
  } else if constexpr (has_blocks<Decoder>()) {
    // Within its block the run begins at a number whose bits the compiler knows in part: enough to
    // see that its weights share what they share.
    constexpr auto kMask =
        static_cast<std::uint32_t>(Decoder::kElements) - static_cast<std::uint32_t>(kDecodeRun);
    const std::int64_t first = static_cast<std::uint32_t>(columns.col) & kMask;
    decode::DecodeView own;
    own.codes = codes + columns.col / Decoder::kElements * Decoder::kBytes;
#pragma unroll
    for (int i = 0; i < kDecodeRun; ++i) {
      out[i] = Decoder::at(own, 0, first + i);
    }
  } else {
#pragma unroll
    for (int i = 0; i < kDecodeRun; ++i) {
      out[i] = Decoder::at(view, row, columns.col + i);
    }
  }
}

}  // namespace vindex::kernels::device
