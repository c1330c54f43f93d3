// Blocks of the other byte order: which bytes are numbers, and that reversing them twice is
// nothing.
#include "decode/byte_order.hpp"

#include "decode_support.hpp"

#include <set>

namespace vindex::decode::testing::byte_order_test {
namespace {

TEST(ByteOrder, FieldsLieInTheirBlockAndDoNotOverlap) {
  for (const ElementTypeRow& row : element_type_rows()) {
    std::set<std::int32_t> taken;
    for (const BlockField& field : block_fields(row.type)) {
      EXPECT_TRUE(field.bytes == 2 || field.bytes == 4 || field.bytes == 8) << row.name;
      for (std::int32_t i = 0; i < field.count; ++i) {
        for (std::int32_t byte = 0; byte < field.bytes; ++byte) {
          const std::int32_t at = field.offset + i * field.stride + byte;
          EXPECT_LT(at, row.block_bytes) << row.name;
          EXPECT_TRUE(taken.insert(at).second) << row.name << " byte " << at;
        }
      }
    }
  }
}

// Each field changed alone changes weights; each swapped pair of bytes is where the decoder reads a
// number. A field at a wrong place would leave the decoded values of swapped blocks different.
TEST(ByteOrder, BlocksWithNumbersReversedByHandDecodeAsBefore) {
  struct Case {
    ElementType type;
    std::vector<std::pair<std::size_t, std::size_t>> numbers;  // offset, bytes: from the formats
  };
  const std::vector<Case> cases = {
      {ElementType::kF16, {{0, 2}}},
      {ElementType::kF64, {{0, 8}}},
      {ElementType::kQ4_1, {{0, 2}, {2, 2}}},
      {ElementType::kQ5_0, {{0, 2}, {2, 4}}},
      {ElementType::kQ5_1, {{0, 2}, {2, 2}, {4, 4}}},
      {ElementType::kQ2_K, {{80, 2}, {82, 2}}},
      {ElementType::kQ3_K, {{108, 2}}},
      {ElementType::kQ4_K, {{0, 2}, {2, 2}}},
      {ElementType::kQ6_K, {{208, 2}}},
      {ElementType::kIQ4_XS, {{0, 2}, {2, 2}}},
      {ElementType::kTQ1_0, {{52, 2}}},
      {ElementType::kTQ2_0, {{64, 2}}},
      {ElementType::kIQ1_M, {{48, 2}, {50, 2}, {52, 2}, {54, 2}}},
      {ElementType::kIQ2_XXS,
       {{0, 2}, {6, 4}, {14, 4}, {22, 4}, {30, 4}, {38, 4}, {46, 4}, {54, 4}, {62, 4}}},
      {ElementType::kMXFP4, {}},
      {ElementType::kNVFP4, {}},
  };
  std::mt19937 random(3);
  for (const Case& item : cases) {
    SCOPED_TRACE(element_type_row(item.type).name);
    std::vector<std::uint8_t> bytes = zero_block(item.type);
    for (std::uint8_t& byte : bytes) {
      byte = static_cast<std::uint8_t>(random());
    }
    const std::vector<float> wanted = decoded_block(item.type, bytes);
    std::vector<std::uint8_t> foreign = bytes;
    for (const auto& [offset, count] : item.numbers) {
      std::reverse(foreign.begin() + static_cast<std::ptrdiff_t>(offset),
                   foreign.begin() + static_cast<std::ptrdiff_t>(offset + count));
    }
    swap_block_fields(item.type, std::as_writable_bytes(std::span(foreign)));
    EXPECT_EQ(foreign, bytes);
    EXPECT_TRUE(same_weights(decoded_block(item.type, foreign), wanted));
  }
}

TEST(ByteOrder, EveryStoredTypeComesBackFromTwoReversals) {
  std::mt19937 random(4);
  for (const ElementTypeRow& row : element_type_rows()) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(row.block_bytes) * 3);
    for (std::byte& byte : bytes) {
      byte = static_cast<std::byte>(random());
    }
    std::vector<std::byte> swapped = bytes;
    swap_block_fields(row.type, swapped);
    EXPECT_EQ(swapped == bytes, block_fields(row.type).empty()) << row.name;
    swap_block_fields(row.type, swapped);
    EXPECT_EQ(swapped, bytes) << row.name;
  }
}

}  // namespace
}  // namespace vindex::decode::testing::byte_order_test
