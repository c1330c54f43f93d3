// Owns the table from encodings to operands: which of them 11 bits of binary16 hold, or 8 of
// bfloat16, or two halves of 22, by counting the significant bits of code times scale; what those
// mean stands in gram_plan.hpp.
#include "gram_plan.hpp"

#include "gram_layout.hpp"
#include "gram_shape.hpp"

#include <vindex/error.hpp>

namespace vindex::kernels {

namespace {

using decode::ElementType;
using decode::Scheme;

/// True where a span of the matrix that starts at a multiple of kTile never changes scale within
/// kTile weights.
bool scale_holds_for_tiles(std::int64_t first, std::int64_t count, std::int64_t block) {
  const bool cut_at_tiles = first % GramShape::kTile == 0 && block % GramShape::kTile == 0;
  return cut_at_tiles || first % block + count <= block;
}

bool is_scaled_e4m3(const decode::Encoding& encoding) {
  return encoding.scheme == Scheme::kFp8Block && encoding.type == ElementType::kF8E4M3;
}

OperandPlan half_as_stored(std::string_view reason) {
  return {OperandKind::kHalf, OperandSource::kDecoded, false, true, reason};
}
OperandPlan shifted_half(std::string_view reason) {
  return {OperandKind::kHalf, OperandSource::kDecoded, true, true, reason};
}
OperandPlan wide(bool exact_as_pair, bool may_round, std::string_view reason) {
  return may_round
             ? OperandPlan{OperandKind::kRoundedHalf, OperandSource::kDecoded, true, false, reason}
             : OperandPlan{OperandKind::kHalfPair, OperandSource::kDecoded, true, exact_as_pair,
                           reason};
}

OperandPlan choose_plain(ElementType type, bool may_round) {
  switch (type) {
    case ElementType::kF16:
      return half_as_stored("binary16 is the operand");
    case ElementType::kF8E5M2:
      return half_as_stored("E5M2 is the upper half of binary16");
    case ElementType::kF8E4M3:
      return half_as_stored("4 bits, 2^-9 to 448");
    case ElementType::kI8:
    case ElementType::kU8:
      return half_as_stored("integers below 2^11");
    case ElementType::kTQ1_0:
    case ElementType::kTQ2_0:
    case ElementType::kQ1_0:
      return half_as_stored("zero or a binary16 number of either sign");
    case ElementType::kNVFP4:
      return half_as_stored("2 + 4 bits, 2^-10 to 2688");
    case ElementType::kBF16:
      return {OperandKind::kBfloat16, OperandSource::kDecoded, true, true,
              "bfloat16 is the operand"};
    case ElementType::kQ2_0:
      return shifted_half("twice a binary16 number at most: one bit of exponent more");
    case ElementType::kMXFP4:
      return shifted_half("2 bits times a power of two");
    case ElementType::kQ4_0:
    case ElementType::kQ5_0:
    case ElementType::kQ8_0:
    case ElementType::kIQ4_NL:
      return wide(true, may_round, "an integer below 2^8 times a binary16 number: at most 18 bits");
    case ElementType::kI16:
    case ElementType::kU16:
      return wide(true, may_round, "16 bits");
    default:
      return wide(false, may_round, "up to the 24 bits of float32");
  }
}

/// Packed integers about a fixed zero, in groups of neighbours: what read_codes() knows.
bool is_symmetric_packed_int(const decode::Encoding& encoding, const decode::DecodeView& view) {
  return encoding.scheme == Scheme::kPackedInt &&
         companion(view, decode::CompanionRole::kZeroPoint) == nullptr &&
         companion(view, decode::CompanionRole::kGroupIndex) == nullptr;
}

OperandPlan choose_packed_int(int bits, ElementType scale_type, bool may_round) {
  const bool power_of_two = scale_type == ElementType::kF8E8M0 || scale_type == ElementType::kU8;
  if (power_of_two) {
    return shifted_half("an integer below 2^8 times a power of two");
  }
  if (bits == 4 && scale_type == ElementType::kBF16) {
    return shifted_half("3 bits times the 8 of a bfloat16 scale");
  }
  const bool fits_pair = scale_type == ElementType::kBF16 || scale_type == ElementType::kF16;
  return wide(fits_pair, may_round,
              fits_pair ? "7 bits times the 8 or 11 of its scale"
                        : "an integer times a float32 scale, rounded to float32");
}

OperandPlan choose_kind(const decode::Encoding& encoding, const decode::DecodeView& view,
                        bool may_round) {
  if (encoding.scheme == Scheme::kPlain) {
    return choose_plain(encoding.type, may_round);
  }
  if (is_symmetric_packed_int(encoding, view)) {
    return choose_packed_int(encoding.bits, view.scale_type, may_round);
  }
  if (is_scaled_e4m3(encoding) &&
      scale_holds_for_tiles(view.first_row, view.rows, view.block_rows) &&
      scale_holds_for_tiles(view.first_col, view.cols, view.block_cols)) {
    return {OperandKind::kBlockScaled, OperandSource::kDecoded, false, true,
            "E4M3 codes, the scale multiplies their sums"};
  }
  return wide(false, may_round, "up to the 24 bits of float32");
}

OperandSource choose_source(const decode::Encoding& encoding, const decode::DecodeView& view) {
  if (encoding.scheme == Scheme::kPlain) {
    switch (encoding.type) {
      case ElementType::kF32:
        return OperandSource::kF32;
      case ElementType::kF16:
        return OperandSource::kF16;
      case ElementType::kBF16:
        return OperandSource::kBF16;
      default:
        return OperandSource::kDecoded;
    }
  }
  if (is_symmetric_packed_int(encoding, view) && encoding.bits == 4) {
    return OperandSource::kScaledInt4;
  }
  return is_scaled_e4m3(encoding) ? OperandSource::kScaledE4M3 : OperandSource::kDecoded;
}

}  // namespace

OperandPlan choose_operands(const decode::Encoding& encoding, const decode::DecodeView& view,
                            bool may_round) {
  OperandPlan plan = choose_kind(encoding, view, may_round);
  plan.source = choose_source(encoding, view);
  return plan;
}

ProductKernel choose_product_kernel(int major, int minor) {
  return major == 9 && minor == 0 ? ProductKernel::kWarpgroup : ProductKernel::kWarp;
}

std::size_t gram_workspace_bytes(const GramShape& shape, const OperandPlan& plan,
                                 std::int64_t matrices) {
  const std::int64_t held = std::clamp<std::int64_t>(matrices, 1, kMatricesAtOnce);
  return GramWorkspace::bytes(shape, plan, held, shape.chunks());
}

std::size_t min_gram_workspace_bytes(const GramShape& shape, const OperandPlan& plan) {
  return GramWorkspace::bytes(shape, plan, 1, 1);
}

GramCut cut_grams(const GramShape& shape, const OperandPlan& plan, std::int64_t matrices,
                  std::size_t bytes) {
  const auto fits = [&](std::int64_t held, std::int64_t chunks) {
    return GramWorkspace::bytes(shape, plan, held, chunks) <= bytes;
  };
  if (!fits(1, 1)) {
    throw OutOfMemory("operands of the Gram matrix", min_gram_workspace_bytes(shape, plan));
  }
  // Whole matrices first: then block-scaled codes are read once.
  GramCut cut{1, shape.chunks(), 0};
  if (fits(1, cut.chunks_at_once)) {
    const std::int64_t most = std::clamp<std::int64_t>(matrices, 1, kMatricesAtOnce);
    while (cut.matrices_at_once < most && fits(cut.matrices_at_once + 1, cut.chunks_at_once)) {
      ++cut.matrices_at_once;
    }
  } else {
    std::int64_t too_many = cut.chunks_at_once;
    cut.chunks_at_once = 1;
    while (too_many - cut.chunks_at_once > 1) {
      const std::int64_t middle = (too_many + cut.chunks_at_once) / 2;
      (fits(1, middle) ? cut.chunks_at_once : too_many) = middle;
    }
  }
  cut.bytes = GramWorkspace::bytes(shape, plan, cut.matrices_at_once, cut.chunks_at_once);
  return cut;
}

}  // namespace vindex::kernels
