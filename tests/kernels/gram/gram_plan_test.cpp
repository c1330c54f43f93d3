// The choice of operands and the cutting of batches, without a device; and that what is called
// exact is exact, by trying it.
#include "kernels/gram/gram_plan.hpp"

#include "decode/formats/float_formats.hpp"
#include "kernels/gram/gram_layout.hpp"
#include "kernels/gram/gram_shape.hpp"
#include <vindex/error.hpp>

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <set>

namespace vindex::kernels::gram_plan_test {
namespace {

using decode::DecodeView;
using decode::ElementType;

DecodeView view_of(std::int64_t rows, std::int64_t cols, std::int64_t block_rows = 1,
                   std::int64_t block_cols = 1, ElementType scale_type = ElementType::kF32) {
  DecodeView view;
  view.rows = rows;
  view.cols = cols;
  view.block_rows = block_rows;
  view.block_cols = block_cols;
  view.scale_type = scale_type;
  return view;
}

/// Rounded to the 11 bits and the range of binary16.
double as_half(double value) {
  if (value == 0.0) {
    return 0.0;
  }
  const int exponent = std::max(std::ilogb(value), -14);
  const double unit = std::ldexp(1.0, exponent - 10);
  const double rounded = std::nearbyint(value / unit) * unit;
  return std::abs(rounded) > 65504.0 ? HUGE_VAL : rounded;
}

OperandPlan plain(ElementType type, bool may_round = false) {
  return choose_operands(decode::plain_encoding(type), view_of(256, 128), may_round);
}

TEST(ChooseOperands, PlainTypes) {
  for (const ElementType type : {ElementType::kF16, ElementType::kF8E5M2, ElementType::kF8E4M3,
                                 ElementType::kI8, ElementType::kU8, ElementType::kTQ1_0,
                                 ElementType::kTQ2_0, ElementType::kQ1_0, ElementType::kNVFP4}) {
    EXPECT_EQ(plain(type).kind, OperandKind::kHalf);
    EXPECT_FALSE(plain(type).shifted);
    EXPECT_TRUE(plain(type, true).exact);
  }
  EXPECT_EQ(plain(ElementType::kBF16).kind, OperandKind::kBfloat16);
  EXPECT_TRUE(plain(ElementType::kBF16).shifted);
  EXPECT_EQ(plain(ElementType::kMXFP4).kind, OperandKind::kHalf);
  EXPECT_TRUE(plain(ElementType::kMXFP4).shifted);
  for (const ElementType type : {ElementType::kF32, ElementType::kQ4_K, ElementType::kF64}) {
    EXPECT_EQ(plain(type).kind, OperandKind::kHalfPair);
    EXPECT_FALSE(plain(type).exact);
    EXPECT_EQ(plain(type).parts(), 2);
    EXPECT_EQ(plain(type, true).kind, OperandKind::kRoundedHalf);
    EXPECT_EQ(plain(type, true).parts(), 1);
  }
  EXPECT_EQ(plain(ElementType::kQ8_0).kind, OperandKind::kHalfPair);
  EXPECT_TRUE(plain(ElementType::kQ8_0).exact);
  EXPECT_FALSE(plain(ElementType::kQ8_0, true).exact);
}

TEST(ChooseOperands, WhatTheOperandKernelReadsItself) {
  EXPECT_EQ(plain(ElementType::kF32).source, OperandSource::kF32);
  EXPECT_EQ(plain(ElementType::kF16).source, OperandSource::kF16);
  EXPECT_EQ(plain(ElementType::kBF16).source, OperandSource::kBF16);
  EXPECT_EQ(plain(ElementType::kQ8_0).source, OperandSource::kDecoded);
  EXPECT_EQ(plain(ElementType::kF64).source, OperandSource::kDecoded);
  const auto scaled = [](const decode::Encoding& encoding) {
    return choose_operands(encoding, view_of(64, 64, 1, 32), false).source;
  };
  EXPECT_EQ(scaled(decode::fp8_block_encoding(1, 32)), OperandSource::kScaledE4M3);
  EXPECT_EQ(scaled(decode::packed_int_encoding(4, 32)), OperandSource::kScaledInt4);
  EXPECT_EQ(scaled(decode::packed_int_encoding(8, 32)), OperandSource::kDecoded);
}

TEST(ChooseOperands, Fp8ScalesLeaveTheSumWhereATileHasOne) {
  const auto kind = [](std::int32_t block_rows, std::int32_t block_cols, const DecodeView& view) {
    return choose_operands(decode::fp8_block_encoding(block_rows, block_cols), view, false).kind;
  };
  EXPECT_EQ(kind(128, 128, view_of(7168, 2048, 128, 128)), OperandKind::kBlockScaled);
  EXPECT_EQ(kind(128, 128, view_of(2048, 7168, 128, 128)), OperandKind::kBlockScaled);
  EXPECT_EQ(kind(256, 128, view_of(7168, 2048, 256, 128)), OperandKind::kBlockScaled);
  EXPECT_EQ(kind(64, 64, view_of(7168, 2048, 64, 64)), OperandKind::kHalfPair);
  EXPECT_EQ(kind(1, 128, view_of(7168, 2048, 1, 128)), OperandKind::kHalfPair);
  // One scale for all of a matrix that is no multiple of 128.
  EXPECT_EQ(kind(200, 300, view_of(200, 300, 200, 300)), OperandKind::kBlockScaled);
  EXPECT_EQ(kind(3, 300, view_of(200, 300, 3, 300)), OperandKind::kHalfPair);
  // A view that starts within a block.
  DecodeView inside = view_of(256, 256, 128, 128);
  inside.first_row = 64;
  EXPECT_EQ(kind(128, 128, inside), OperandKind::kHalfPair);
}

TEST(ChooseOperands, PackedIntegersByTheBitsOfTheirScale) {
  const auto plan = [](std::int32_t bits, ElementType scale) {
    return choose_operands(decode::packed_int_encoding(bits, 32), view_of(64, 64, 1, 32, scale),
                           false);
  };
  EXPECT_EQ(plan(4, ElementType::kBF16).kind, OperandKind::kHalf);
  EXPECT_TRUE(plan(4, ElementType::kBF16).shifted);
  EXPECT_EQ(plan(4, ElementType::kF16).kind, OperandKind::kHalfPair);
  EXPECT_TRUE(plan(4, ElementType::kF16).exact);
  EXPECT_FALSE(plan(4, ElementType::kF32).exact);
  EXPECT_EQ(plan(8, ElementType::kBF16).kind, OperandKind::kHalfPair);
  EXPECT_EQ(plan(8, ElementType::kF8E8M0).kind, OperandKind::kHalf);
}

TEST(ChooseOperands, EightBitCodesAreExactInHalf) {
  for (int code = 0; code < 256; ++code) {
    const auto byte = static_cast<std::uint8_t>(code);
    for (const float value : {decode::e4m3_to_float(byte), decode::e5m2_to_float(byte),
                              static_cast<float>(code), static_cast<float>(code - 128)}) {
      if (std::isfinite(value)) {
        EXPECT_EQ(as_half(static_cast<double>(value)), static_cast<double>(value)) << code;
      }
    }
  }
}

TEST(ChooseOperands, FourBitsTimesBfloatAreExactInShiftedHalfDownTo2ToTheMinus28) {
  // The largest weight lies in [2^14, 2^15) after the shift; scales fall from there.
  for (int mantissa = 128; mantissa < 256; ++mantissa) {
    for (int exponent = 4; exponent > -25; --exponent) {
      for (int code = -8; code <= 7; ++code) {
        const double weight = code * std::ldexp(mantissa, exponent);
        if (std::abs(weight) < 0x1p+15 && std::abs(weight) >= 0x1p-14) {
          EXPECT_EQ(as_half(weight), weight) << code << " " << mantissa << " " << exponent;
        }
      }
    }
  }
}

TEST(ChooseOperands, PairsHold22Bits) {
  for (std::uint32_t bits = 1U << 21U; bits < 1U << 22U; bits += 977) {
    const double weight = std::ldexp(static_cast<double>(bits), -8);  // in [2^13, 2^14)
    const double high = as_half(weight);
    EXPECT_EQ(high + as_half(weight - high), weight);
  }
}

TEST(ChooseProductKernel, OnlyHopperHasWarpgroups) {
  EXPECT_EQ(choose_product_kernel(9, 0), ProductKernel::kWarpgroup);
  for (const auto& [major, minor] : {std::pair{8, 0}, {8, 9}, {10, 0}, {12, 0}}) {
    EXPECT_EQ(choose_product_kernel(major, minor), ProductKernel::kWarp);
  }
}

TEST(GramShape, Sizes) {
  const GramShape down{7168, 2048};
  EXPECT_TRUE(down.contracts_rows());
  EXPECT_EQ(down.order(), 2048);
  EXPECT_EQ(down.tiles(), 16);
  EXPECT_EQ(down.tile_pairs(), 136);
  EXPECT_EQ(down.chunks(), 56);
  const GramShape odd{1, 300};
  EXPECT_FALSE(odd.contracts_rows());
  EXPECT_EQ(odd.order(), 32);
  EXPECT_EQ(odd.tile_pairs(), 1);
  EXPECT_EQ(odd.chunks(), 3);
}

TEST(OperandLayout, EveryElementHasAPlaceOfItsOwn) {
  for (const bool contracts_rows : {false, true}) {
    std::set<std::int64_t> places;
    for (std::int64_t line = 0; line < 128; ++line) {
      for (std::int64_t step = 0; step < 64; ++step) {
        const std::int64_t byte = operand_byte(contracts_rows, line, step);
        EXPECT_GE(byte, 0);
        EXPECT_LT(byte, kOperandTileBytes);
        EXPECT_EQ(byte % 2, 0);
        places.insert(byte);
      }
    }
    EXPECT_EQ(places.size(), 128U * 64U);
  }
}

TEST(GramCut, HoldsWhatFitsAndNoMoreThanTheBatch) {
  const GramShape shape{7168, 2048};
  const OperandPlan plan = plain(ElementType::kF16);
  const std::size_t one = gram_workspace_bytes(shape, plan, 1);
  EXPECT_GE(one, 7168U * 2048U * 2U);
  EXPECT_LT(one, 7168U * 2048U * 2U + (1U << 20U));
  EXPECT_EQ(cut_grams(shape, plan, 384, one).matrices_at_once, 1);
  EXPECT_EQ(cut_grams(shape, plan, 384, one).chunks_at_once, 56);
  EXPECT_EQ(cut_grams(shape, plan, 384, 5 * one).matrices_at_once, 5);
  EXPECT_EQ(cut_grams(shape, plan, 3, 5 * one).matrices_at_once, 3);
  EXPECT_EQ(cut_grams(shape, plan, 384, 1000 * one).matrices_at_once, kMatricesAtOnce);
  const GramCut half = cut_grams(shape, plan, 384, one / 2);
  EXPECT_EQ(half.matrices_at_once, 1);
  EXPECT_LT(half.chunks_at_once, 28);
  EXPECT_GE(half.chunks_at_once, 26);
  EXPECT_LE(half.bytes, one / 2);
  const std::size_t least = min_gram_workspace_bytes(shape, plan);
  EXPECT_EQ(cut_grams(shape, plan, 1, least).chunks_at_once, 1);
  EXPECT_THROW(cut_grams(shape, plan, 1, least - 1), OutOfMemory);
}

}  // namespace
}  // namespace vindex::kernels::gram_plan_test
