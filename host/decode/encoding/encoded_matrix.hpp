// Owns the view EncodedMatrix that both back ends receive: bytes, encoding and shape of a matrix or
// a part of it, nothing decoded, nothing copied.
#pragma once

#include "encoding.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace vindex::decode {

/// What an extra stored tensor is for.
enum class CompanionRole : std::uint8_t {
  kScale,
  kZeroPoint,    ///< or the bias of kAffineInt
  kGroupIndex,   ///< I32 per column: its group of scales
  kGlobalScale,  ///< one float32 for the whole matrix
  kShape,
  kTable,        ///< F32 [16]: the weights of kLookup4's codes
  kNestedScale,  ///< F32: scales of the scales
  kNestedTable,  ///< F32 [256]: what U8 scales stand for
  kCount
};
inline constexpr std::size_t kCompanionRoles = static_cast<std::size_t>(CompanionRole::kCount);

/// One companion tensor, whole (scales are small): `rows x cols` elements of `type`, row-major.
struct Companion {
  CompanionRole role = CompanionRole::kScale;
  ElementType type = ElementType::kF32;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::span<const std::byte> bytes;
};

inline constexpr std::size_t kMaxCompanions = 5;

/// A rectangle of an encoded matrix, bytes in memory, owned by someone else.
/// Rows and columns are those of the weights as decoded (row-major; GGUF ne[0] = cols), whatever
/// the layout of the codes. Scales are indexed from the whole matrix, so a view keeps where it
/// starts. Views are cut at multiples of column_granularity(), rows anywhere.
struct EncodedMatrix {
  const Encoding* encoding = nullptr;
  std::int64_t rows = 0;  ///< of this view
  std::int64_t cols = 0;
  std::int64_t first_row = 0;  ///< position of the view in the whole matrix
  std::int64_t first_col = 0;
  const std::byte* codes = nullptr;   ///< first byte of the view's codes; any alignment
  std::int64_t row_stride_bytes = 0;  ///< between stored rows of codes; unused where kFlat
  std::array<Companion, kMaxCompanions> companions{};
  std::int32_t companion_count = 0;
  std::int64_t code_origin = 0;  ///< kFlat: number in the whole matrix of the byte at `codes`

  const Companion* companion(CompanionRole role) const;
};

/// The rows x cols floats at `values`, row-major without gaps, as a whole matrix. They must stay.
EncodedMatrix float32_view(const float* values, std::int64_t rows, std::int64_t cols);

}  // namespace vindex::decode
