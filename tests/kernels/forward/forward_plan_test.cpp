// How products and attention are cut to a device's memory, without one.
#include "kernels/forward/forward_plan.hpp"

#include "kernels/forward/attention.hpp"
#include <vindex/error.hpp>

#include <gtest/gtest.h>

#include <limits>

namespace vindex::test::forward_plan_test {
namespace {

using namespace kernels;

const decode::Encoding& bf16() {
  static const decode::Encoding kEncoding = decode::plain_encoding(decode::ElementType::kBF16);
  return kEncoding;
}

LinearShape linear_of(std::int64_t tokens, std::int64_t depth, std::int64_t count) {
  LinearShape shape;
  shape.encoding = &bf16();
  shape.tokens = tokens;
  shape.depth = depth;
  shape.count = count;
  return shape;
}

TEST(ForwardPlan, ProductsStayWithinTheBudgetWhateverTheShape) {
  for (const bool columns : {false, true}) {
    for (const std::int64_t step : {1, 2, 1000}) {
      for (const std::int64_t tokens : {1, 700, 100000}) {
        for (const auto& [depth, count] : {std::pair{2048, 7168}, {7168, 2048}, {4096, 150000}}) {
          LinearShape shape = linear_of(tokens, depth, count);
          shape.step = step;
          shape.columns = columns;
          LinearTile before{.tokens = 0, .rows = 0};
          for (const std::uint64_t mib : {64, 256, 1024, 16384}) {
            const LinearTile tile = plan_linear(shape, mib << 20U);
            EXPECT_LE(linear_device_bytes(shape, tile), mib << 20U);
            EXPECT_GE(tile.rows, 1);
            EXPECT_LE(tile.rows, count);
            EXPECT_GE(tile.tokens, before.tokens) << "more memory holds more tokens";
            EXPECT_LE(tile.tokens, tokens);
            before = tile;
          }
          EXPECT_EQ(before.tokens, tokens) << "all of them, so that each weight is read once";
        }
      }
    }
  }
}

TEST(ForwardPlan, AMatrixIsCutSoThatCopiesAndProductsOverlap) {
  const LinearShape shape = linear_of(512, 7168, 2048);
  const LinearTile tile = plan_linear(shape, 64ULL << 30U);
  EXPECT_EQ(tile.tokens, 512);
  EXPECT_EQ(tile.rows, 512) << "four tiles, whole ones";
  EXPECT_EQ(plan_linear(linear_of(512, 64, 64), 64ULL << 30U).rows, 64) << "nothing to gain";
  const LinearTile wide = plan_linear(linear_of(8, 4096, 1 << 20U), 64ULL << 30U);
  EXPECT_LE(wide.rows * 4096 * 4, 64 << 20U) << "however large the weight";
}

TEST(ForwardPlan, RowsFarApartStayWithinWhatTheLibraryTakes) {
  LinearShape shape = linear_of(4, 1 << 16U, 100);
  shape.step = 1 << 20U;
  EXPECT_EQ(plan_linear(shape, 64ULL << 30U).rows, 1);
  shape.step = 2;
  EXPECT_GT(plan_linear(shape, 64ULL << 30U).rows, 1);
}

TEST(ForwardPlan, WhatDoesNotFitIsSaidWithItsSize) {
  try {
    (void)plan_linear(linear_of(100, 1 << 20U, 100), 1U << 20U);
    ADD_FAILURE() << "a row of 4 MiB does not fit 1";
  } catch (const OutOfMemory& error) {
    EXPECT_GT(error.wanted_bytes(), 4U << 20U);
  }
  // Sizes whose products exceed 64 bits are more than there is, not less.
  constexpr std::int64_t kHuge = std::int64_t{1} << 40U;
  EXPECT_THROW((void)plan_linear(linear_of(kHuge, kHuge, kHuge), 1ULL << 40U), OutOfMemory);
  LinearShape stepped = linear_of(1, 16, kHuge);
  stepped.step = kHuge;
  EXPECT_EQ(plan_linear(stepped, 1ULL << 30U).rows, 1);
  const AttentionShape attention{
      .tokens = kHuge, .heads = 8, .kv_heads = 8, .head_dim = kHuge, .value_dim = 1};
  EXPECT_THROW((void)plan_attention(attention, 1ULL << 40U), OutOfMemory);
}

TEST(ForwardPlan, EncodedTilesHaveRoomForWholeBlocks) {
  const decode::Encoding q8 = decode::plain_encoding(decode::ElementType::kQ8_0);
  LinearShape shape = linear_of(1, 64, 1000);
  shape.encoding = &q8;
  shape.columns = true;
  EXPECT_EQ(decoded_span(shape, 1), 32);
  EXPECT_EQ(decoded_span(shape, 5), 64) << "it may lie across two blocks";
  EXPECT_EQ(decoded_span(shape, 33), 64);
  EXPECT_EQ(decoded_span(shape, 34), 96);
  EXPECT_EQ(code_room(shape, 5), 64U * 2 * 34) << "two blocks of each of 64 rows";
  shape.columns = false;
  EXPECT_EQ(decoded_span(shape, 5), 5);
}

TEST(ForwardPlan, AttentionStaysWithinTheBudgetAndALaunchIsShort) {
  for (const std::int64_t tokens : {1, 63, 4096, 131072}) {
    const AttentionShape shape{
        .tokens = tokens, .heads = 128, .kv_heads = 8, .head_dim = 192, .value_dim = 128};
    std::int64_t before = 0;
    for (const std::uint64_t mib : {512, 4096, 65536}) {
      const AttentionTile tile = plan_attention(shape, mib << 20U);
      EXPECT_LE(attention_device_bytes(shape, tile), mib << 20U);
      EXPECT_GE(tile.kv_heads, before);
      EXPECT_LE(tile.kv_heads, 8);
      EXPECT_GE(tile.queries, std::min(tokens, kAttentionQueries));
      before = tile.kv_heads;
    }
    EXPECT_EQ(before, 8);
  }
  const AttentionShape longest{
      .tokens = 1 << 20U, .heads = 64, .kv_heads = 8, .head_dim = 128, .value_dim = 128};
  EXPECT_LE(plan_attention(longest, 64ULL << 30U).queries, 128) << "stops are looked at between";
}

TEST(ForwardPlan, ManyHeadsStayWithinAGrid) {
  const AttentionShape shape{
      .tokens = 2, .heads = 200000, .kv_heads = 100000, .head_dim = 1, .value_dim = 1};
  EXPECT_LE(plan_attention(shape, 1ULL << 30U).kv_heads * shape.group(), 65535);
}

TEST(ForwardPlan, NoSlabIsLargerThanItsBound) {
  for (const auto& [rows, cols] : {std::pair{7168LL, 2048LL}, {1LL, 1LL << 28U}, {3LL, 5LL}}) {
    const std::uint64_t most = most_slab_bytes(rows, cols);
    LinearShape shape = linear_of(1, cols, rows);
    EXPECT_GE(most, code_room(shape, plan_linear(shape, 64ULL << 30U).rows));
  }
  EXPECT_LT(most_slab_bytes(std::numeric_limits<std::int64_t>::max(), 4), 1ULL << 63U)
      << "a sum with it does not wrap";
}

}  // namespace
}  // namespace vindex::test::forward_plan_test
