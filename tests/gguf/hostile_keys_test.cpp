// GGUF headers with one field wrong: each is refused with its id, at its byte. Patterns of public
// advisories are named; the project they were found in is not the point, the pattern is.
#include "hostile.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace vindex::gguf::hostile_keys_test {
namespace {

using testing::at_byte;
using testing::gguf_string;
using testing::little_endian;

TEST(GgufHostileTest, MagicOnlyCve2024_39720) {
  EXPECT_EQ(error_of("GGUF"), at_byte("E-GGUF-TRUNCATED", 4));
}

TEST(GgufHostileTest, OtherMagics) {
  EXPECT_EQ(error_of(""), at_byte("E-GGUF-MAGIC", 0));
  EXPECT_EQ(error_of("GGU"), at_byte("E-GGUF-MAGIC", 0));
  EXPECT_EQ(error_of("GGML12345678901234567890"), at_byte("E-GGUF-MAGIC", 0));
}

TEST(GgufHostileTest, Versions) {
  GgufBuilder builder = small_gguf();
  for (const std::uint32_t version : {0U, 4U, 0x00010003U, 0x04000000U, 0x00010000U, ~0U}) {
    builder.version = version;
    EXPECT_EQ(error_of(builder.bytes()), at_byte("E-GGUF-VERSION", 4)) << version;
  }
}

/// `value` as a length of this container: hostile values of 64 bits become such of 32.
std::uint64_t cut(const GgufBuilder& builder, std::uint64_t value) {
  return builder.length_bytes == 8 ? value : value >> 32U;
}

TEST(GgufHostileTest, TensorCountsCve2024_21836) {
  for (GgufBuilder& builder : small_containers()) {
    for (const std::uint64_t count : {std::uint64_t{1'000'001} << 32U, kTwoTo63, kAllOnes}) {
      builder.tensor_count = cut(builder, count);
      EXPECT_EQ(error_of(builder.bytes()), at_byte("E-GGUF-COUNT", 8)) << count;
    }
  }
  GgufBuilder builder = small_gguf();
  for (const std::uint64_t count : {std::uint64_t{1'000'001}, kAllOnes / 80 + 1}) {
    builder.tensor_count = count;
    EXPECT_EQ(error_of(builder.bytes()), at_byte("E-GGUF-COUNT", 8)) << count;
  }
}

TEST(GgufHostileTest, KeyCountsCve2024_23605AndCve2024_25664) {
  for (GgufBuilder& builder : small_containers()) {
    for (const std::uint64_t count : {std::uint64_t{1'000'001} << 32U, kTwoTo63, kAllOnes}) {
      builder.key_count = cut(builder, count);
      EXPECT_EQ(error_of(builder.bytes()), at_byte("E-GGUF-COUNT", 8 + builder.length_bytes));
    }
  }
  GgufBuilder builder = small_gguf();
  for (const std::uint64_t count : {std::uint64_t{1'000'001}, kAllOnes / 128 + 1}) {
    builder.key_count = count;
    EXPECT_EQ(error_of(builder.bytes()), at_byte("E-GGUF-COUNT", 16)) << count;
  }
}

TEST(GgufHostileTest, CountsThatFitTheFileAndNotItsContent) {
  GgufBuilder builder = small_gguf();
  builder.key_count = 3;  // the first tensor is read as a key of an absurd type
  EXPECT_NE(error_of(builder.bytes()), "none");
  builder.key_count = 1;
  EXPECT_NE(error_of(builder.bytes()), "none");
}

// CVE-2025-66960 is the same of version 1.
TEST(GgufHostileTest, StringLengthsCve2024_23496AndCve2025_49847) {
  for (const std::uint64_t length :
       {kAllOnes, kAllOnes - 7, kTwoTo63, std::uint64_t{1} << 31U, std::uint64_t{1'000'000}}) {
    GgufBuilder builder;
    builder.key("text", 8, little_endian(length) + "abc");
    EXPECT_EQ(error_of(builder.bytes()), at_byte("E-GGUF-STRING", builder.key_value_position(0)))
        << length;
  }
  for (GgufBuilder& builder : containers()) {
    builder.key("text", 8, builder.length(kAllOnes) + "abc");
    EXPECT_EQ(error_of(builder.bytes()), at_byte("E-GGUF-STRING", builder.key_value_position(0)));
  }
}

TEST(GgufHostileTest, KeyNameLengths) {
  for (const std::uint64_t length : {kAllOnes, kTwoTo63, std::uint64_t{65'537}}) {
    std::string bytes = GgufBuilder().key_u32("k", 1).bytes() + std::string(70'000, 'x');
    bytes.replace(24, 8, little_endian(length));
    EXPECT_EQ(error_of(bytes), at_byte("E-GGUF-STRING", 24)) << length;
  }
}

TEST(GgufHostileTest, TensorNameLengths) {
  const GgufBuilder builder = small_gguf();
  for (const std::uint64_t length : {kAllOnes, kTwoTo63, std::uint64_t{65'537}}) {
    std::string bytes = builder.bytes() + std::string(70'000, 'x');
    bytes.replace(builder.tensor_position(0), 8, little_endian(length));
    EXPECT_EQ(error_of(bytes), at_byte("E-GGUF-STRING", builder.tensor_position(0))) << length;
  }
}

TEST(GgufHostileTest, ArrayCountsCve2024_21825AndCve2024_25667) {
  for (std::uint32_t type = 0; type <= 12; ++type) {
    if (type == 9) {
      continue;
    }
    for (const std::uint64_t count :
         {kAllOnes, kTwoTo63, kAllOnes / 8 + 1, kAllOnes / 4 + 1, std::uint64_t{1} << 31U}) {
      GgufBuilder builder;
      builder.key_array("array", type, count, "x");
      EXPECT_EQ(error_of(builder.bytes()),
                at_byte("E-GGUF-ARRAY", builder.key_value_position(0) + 4))
          << type << " " << count;
    }
  }
}

// gguf-py issue 27188: such a file made its reader loop and allocate for ever.
TEST(GgufHostileTest, AFileOfFortyNineBytesWithAnArrayOfTwoTo63) {
  GgufBuilder builder;
  builder.alignment = 1;
  builder.key_array("a", 0, kTwoTo63, "");
  EXPECT_EQ(builder.bytes().size(), 49U);
  EXPECT_EQ(error_of(builder.bytes()), at_byte("E-GGUF-ARRAY", 41));
}

TEST(GgufHostileTest, StringsOfArraysCve2024_25668) {
  for (GgufBuilder& builder : containers()) {
    builder.key_array("array", 8, 2, builder.text("one") + builder.length(kAllOnes));
    EXPECT_EQ(
        error_of(builder.bytes()),
        at_byte("E-GGUF-STRING", builder.key_value_position(0) + 4 + 2 * builder.length_bytes + 3));
  }
}

TEST(GgufHostileTest, ArrayCountsInEveryContainer) {
  for (GgufBuilder& builder : containers()) {
    builder.key_array("array", 4, kAllOnes, "x");
    EXPECT_EQ(error_of(builder.bytes()),
              at_byte("E-GGUF-ARRAY", builder.key_value_position(0) + 4));
  }
}

TEST(GgufHostileTest, TensorFieldsInEveryContainer) {
  for (const GgufBuilder& empty : containers()) {
    GgufBuilder rank = empty;
    rank.raw_tensor("a", 5, std::string(5 * empty.length_bytes, '\1'), 0, 0);
    EXPECT_EQ(error_of(rank.bytes()), at_byte("E-GGUF-DIMENSIONS", rank.rank_position(0)));
    GgufBuilder product = empty;
    product.tensor("a", {kAllOnes, kAllOnes, kAllOnes, kAllOnes}, 24, 0);
    EXPECT_EQ(error_of(product.bytes()), at_byte("E-GGUF-SHAPE", product.rank_position(0) + 4));
    GgufBuilder type = empty;
    type.tensor("a", {256}, 137, 0);
    EXPECT_EQ(error_of(type.bytes()), at_byte("E-GGUF-TYPE", type.type_position(0)));
    GgufBuilder range = empty;
    range.tensor("a", {64}, 24, 0);
    range.data = std::string(63, '\0');
    EXPECT_EQ(error_of(range.bytes()), at_byte("E-GGUF-RANGE", range.tensor_position(0)));
    GgufBuilder offset = empty;
    offset.tensor("a", {8}, 24, kAllOnes - 31);
    EXPECT_EQ(error_of(offset.bytes()), at_byte("E-GGUF-RANGE", offset.tensor_position(0)));
    GgufBuilder alignment = empty;
    alignment.key_u32("general.alignment", 0);
    EXPECT_EQ(error_of(alignment.bytes()), at_byte("E-GGUF-ALIGNMENT", alignment.key_position(0)));
  }
}

TEST(GgufHostileTest, NestedArraysAreNotFollowed) {
  std::string nested;
  for (int i = 0; i < 100'000; ++i) {
    nested += little_endian(std::uint32_t{9}) + little_endian(std::uint64_t{1});
  }
  GgufBuilder builder;
  builder.key("array", 9, nested);
  EXPECT_EQ(error_of(builder.bytes()),
            at_byte("E-GGUF-NESTED-ARRAY", builder.key_value_position(0)));
}

// Negative ids read as large unsigned ones (llama.cpp pull request 19856).
TEST(GgufHostileTest, ValueTypesThatDoNotExist) {
  for (const std::uint32_t type : {13U, 255U, 0x80000000U, 0xFFFFFFFFU}) {
    GgufBuilder builder;
    builder.key("key", type, std::string(16, '\0'));
    EXPECT_EQ(error_of(builder.bytes()), at_byte("E-GGUF-KEY-TYPE", builder.key_type_position(0)));
    GgufBuilder array;
    array.key_array("key", type, 1, std::string(16, '\0'));
    EXPECT_EQ(error_of(array.bytes()), at_byte("E-GGUF-KEY-TYPE", array.key_value_position(0)));
  }
}

TEST(GgufHostileTest, BooleansAreZeroOrOne) {
  GgufBuilder builder;
  builder.key("flag", 7, "\x02");
  EXPECT_EQ(error_of(builder.bytes()), at_byte("E-GGUF-BOOL", builder.key_value_position(0)));
}

// llama.cpp pull request 24263: an assertion there.
TEST(GgufHostileTest, EmptyKeyNames) {
  EXPECT_EQ(error_of(GgufBuilder().key_u32("", 1).bytes()), at_byte("E-GGUF-KEY-EMPTY", 24));
}

TEST(GgufHostileTest, DuplicateKeys) {
  GgufBuilder builder = small_gguf();
  builder.key_u32("llama.block_count", 2);
  EXPECT_EQ(error_of(builder.bytes()), at_byte("E-GGUF-DUPLICATE-KEY", builder.key_position(2)));
}

TEST(GgufHostileTest, DuplicateTensors) {
  GgufBuilder builder = small_gguf();
  builder.tensor("a.weight", {8}, 24, 64);
  EXPECT_EQ(error_of(builder.bytes()),
            at_byte("E-GGUF-DUPLICATE-TENSOR", builder.tensor_position(2)));
}

TEST(GgufHostileTest, WhatOccursTwiceIsNamed) {
  const auto message_of_header = [](const std::string& bytes) {
    const auto source = input::make_memory_source("m.gguf", testing::bytes_of(bytes));
    return testing::message_of([&] { read_header(*source); });
  };
  GgufBuilder keys = small_gguf();
  keys.key_u32("llama.block_count", 2);
  EXPECT_NE(message_of_header(keys.bytes()).find("\"llama.block_count\""), std::string::npos);
  GgufBuilder tensors = small_gguf();
  tensors.tensor("a.weight", {8}, 24, 64);
  EXPECT_NE(message_of_header(tensors.bytes()).find("\"a.weight\""), std::string::npos);
}

// CVE-2025-0317: a division by zero there; llama.cpp pull request 26318: another type.
TEST(GgufHostileTest, AlignmentsThatAreNoPowerOfTwoOrNoU32Cve2025_0317) {
  for (const std::uint32_t alignment : {0U, 3U, 33U, 0xFFFFFFFFU}) {
    GgufBuilder builder;
    builder.key_u32("general.alignment", alignment);
    EXPECT_EQ(error_of(builder.bytes()), at_byte("E-GGUF-ALIGNMENT", 24)) << alignment;
  }
  EXPECT_EQ(error_of(GgufBuilder().key_i32("general.alignment", 32).bytes()),
            at_byte("E-GGUF-ALIGNMENT", 24));
  EXPECT_EQ(
      error_of(
          GgufBuilder().key("general.alignment", 10, little_endian(std::uint64_t{32})).bytes()),
      at_byte("E-GGUF-ALIGNMENT", 24));
}

TEST(GgufHostileTest, AnAlignmentBeyondTheFile) {
  GgufBuilder builder;
  builder.key_u32("general.alignment", 0x80000000U).tensor("a", {8}, 24, 0);
  builder.data = std::string(32, '\0');
  EXPECT_EQ(error_of(builder.bytes()), at_byte("E-GGUF-RANGE", builder.tensor_position(0)));
}

}  // namespace
}  // namespace vindex::gguf::hostile_keys_test
