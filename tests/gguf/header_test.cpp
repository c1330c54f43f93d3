// GGUF headers: what is read, what is accepted with a warning.
#include "gguf/header.hpp"

#include "gguf/read_header.hpp"
#include "input/local/file_source.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/gguf_builder.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <string>

namespace vindex::gguf::header_test {
namespace {

using testing::bytes_of;
using testing::gguf_string;
using testing::GgufBuilder;
using testing::little_endian;
using testing::small_gguf;

Header parse(const std::string& bytes) {
  const auto source = input::make_memory_source("memory.gguf", bytes_of(bytes));
  return read_header(*source);
}

std::string warnings_of(const std::string& bytes) {
  std::string ids;
  for (const Warning& warning : parse(bytes).warnings) {
    ids += (ids.empty() ? "" : " ") + warning.id;
  }
  return ids;
}

TEST(GgufTest, TensorsHaveTheirFileOrderAndAbsoluteOffsets) {
  const GgufBuilder builder = small_gguf();
  const Header header = parse(builder.bytes());
  EXPECT_EQ(header.version, 3U);
  EXPECT_EQ(header.data_offset, builder.data_position());
  ASSERT_EQ(header.tensors.size(), 2U);
  EXPECT_EQ(header.tensors[1].name, "b.weight");
  EXPECT_EQ(header.tensors[1].type, decode::ElementType::kQ4_0);
  EXPECT_EQ(header.tensors[1].offset, builder.data_position() + 32);
  EXPECT_EQ(header.tensors[1].bytes, 36U);
  EXPECT_EQ(header.tensors[0].dimensions, (std::vector<std::uint64_t>{4, 2}));
  EXPECT_EQ(warnings_of(builder.bytes()), "");
}

TEST(GgufTest, EveryValueTypeIsReadAndKeepsItsByteRange) {
  GgufBuilder builder;
  builder.key("u8", 0, "\xff").key("i8", 1, "\xfe");
  builder.key("u16", 2, little_endian(std::uint16_t{65535}));
  builder.key("i16", 3, little_endian(std::int16_t{-2}));
  builder.key("i32", 5, little_endian(std::int32_t{-3}));
  builder.key("f32", 6, little_endian(std::bit_cast<std::uint32_t>(1.5F)));
  builder.key("bool", 7, "\x01").key_string("string", "text");
  builder.key("u64", 10, little_endian(~std::uint64_t{0}));
  builder.key("i64", 11, little_endian(std::int64_t{-4}));
  builder.key("f64", 12, little_endian(std::bit_cast<std::uint64_t>(-2.5)));
  const Header header = parse(builder.bytes());
  const auto value = [&](const char* name) { return find_key(header.keys, name)->value; };
  EXPECT_EQ(value("u8"), Scalar(std::uint64_t{255}));
  EXPECT_EQ(value("i8"), Scalar(std::int64_t{-2}));
  EXPECT_EQ(value("u16"), Scalar(std::uint64_t{65535}));
  EXPECT_EQ(value("i16"), Scalar(std::int64_t{-2}));
  EXPECT_EQ(value("i32"), Scalar(std::int64_t{-3}));
  EXPECT_EQ(value("f32"), Scalar(1.5));
  EXPECT_EQ(value("bool"), Scalar(std::uint64_t{1}));
  EXPECT_EQ(value("string"), Scalar(std::string("text")));
  EXPECT_EQ(value("u64"), Scalar(~std::uint64_t{0}));
  EXPECT_EQ(value("i64"), Scalar(std::int64_t{-4}));
  EXPECT_EQ(value("f64"), Scalar(-2.5));
  for (std::size_t i = 0; i < header.keys.size(); ++i) {
    EXPECT_EQ(header.keys[i].value_offset, builder.key_value_position(i));
    EXPECT_EQ(header.keys[i].value_offset + header.keys[i].value_bytes,
              builder.key_position(i + 1));
  }
  EXPECT_EQ(find_key(header.keys, "absent"), nullptr);
}

TEST(GgufTest, ShortIntegerArraysAreKeptAndOthersCounted) {
  GgufBuilder builder;
  builder.key_array("signed", 5, 2, little_endian(std::int32_t{-1}) + little_endian(7));
  builder.key_array("long", 0, 4097, std::string(4097, '\1'));
  builder.key_array("huge", 10, 1, little_endian(~std::uint64_t{0}));
  builder.key_array("strings", 8, 2, gguf_string("one") + gguf_string(""));
  builder.key_array("floats", 6, 1, little_endian(std::uint32_t{0}));
  const Header header = parse(builder.bytes());
  EXPECT_EQ(find_key(header.keys, "signed")->integers, (std::vector<std::int64_t>{-1, 7}));
  EXPECT_TRUE(find_key(header.keys, "long")->integers.empty());
  EXPECT_EQ(find_key(header.keys, "long")->array_count, 4097U);
  EXPECT_TRUE(find_key(header.keys, "huge")->integers.empty());
  EXPECT_EQ(find_key(header.keys, "strings")->array_count, 2U);
  EXPECT_EQ(find_key(header.keys, "strings")->element_type, ValueType::kString);
  EXPECT_EQ(find_key(header.keys, "floats")->value_bytes, 16U);
}

TEST(GgufTest, TheDigestCoversTheHeaderAndNotTheData) {
  GgufBuilder builder = small_gguf();
  const std::string before = parse(builder.bytes()).header_sha256;
  builder.data[0] = 'x';
  EXPECT_EQ(parse(builder.bytes()).header_sha256, before);
  builder.key_u32("more", 1);
  EXPECT_NE(parse(builder.bytes()).header_sha256, before);
}

TEST(GgufTest, EveryContainerHoldsTheSameThings) {
  const Header wanted = parse(small_gguf().bytes());
  for (const std::uint32_t version : {1U, 2U, 3U}) {
    for (const bool big_endian : {false, true}) {
      SCOPED_TRACE(std::to_string(version) + (big_endian ? " big-endian" : ""));
      GgufBuilder builder = small_gguf(version, big_endian);
      builder.key_array("strings", 8, 3, builder.text("a") + builder.text("") + builder.text("bc"));
      builder.key_array("integers", 5, 2, builder.number(-2) + builder.number(70'000));
      builder.key("f32", 6, builder.number(std::bit_cast<std::uint32_t>(1.5F)));
      builder.key("i64", 11, builder.number(std::int64_t{-5}));
      const Header header = parse(builder.bytes());
      EXPECT_EQ(header.version, version);
      EXPECT_EQ(header.big_endian, big_endian);
      EXPECT_EQ(header.data_offset, builder.data_position());
      EXPECT_TRUE(header.warnings.empty());
      ASSERT_EQ(header.tensors.size(), wanted.tensors.size());
      for (std::size_t i = 0; i < wanted.tensors.size(); ++i) {
        EXPECT_EQ(header.tensors[i].name, wanted.tensors[i].name);
        EXPECT_EQ(header.tensors[i].type, wanted.tensors[i].type);
        EXPECT_EQ(header.tensors[i].dimensions, wanted.tensors[i].dimensions);
        EXPECT_EQ(header.tensors[i].bytes, wanted.tensors[i].bytes);
        EXPECT_EQ(header.tensors[i].offset - header.data_offset,
                  wanted.tensors[i].offset - wanted.data_offset);
      }
      const auto key = [&](const char* name) { return *find_key(header.keys, name); };
      EXPECT_EQ(key("general.architecture").value, Scalar(std::string("llama")));
      EXPECT_EQ(key("llama.block_count").value, Scalar(std::uint64_t{1}));
      EXPECT_EQ(key("strings").array_count, 3U);
      EXPECT_EQ(key("strings").value_bytes, 4 + 4 * builder.length_bytes + 3);
      EXPECT_EQ(key("integers").integers, (std::vector<std::int64_t>{-2, 70'000}));
      EXPECT_EQ(key("f32").value, Scalar(1.5));
      EXPECT_EQ(key("i64").value, Scalar(std::int64_t{-5}));
    }
  }
}

TEST(GgufTest, AlignmentMayBeAnyPowerOfTwo) {
  for (const std::uint32_t alignment : {1U, 8U, 64U, 4096U}) {
    GgufBuilder builder;
    builder.alignment = alignment;
    builder.key_u32("general.alignment", alignment).tensor("a", {32}, 24, 0);
    builder.data = std::string(std::max(32U, alignment), '\0');
    const Header header = parse(builder.bytes());
    EXPECT_EQ(header.alignment, alignment);
    EXPECT_EQ(header.data_offset, builder.data_position());
    EXPECT_TRUE(header.warnings.empty());
  }
}

TEST(GgufTest, FilesWithoutTensorsMayOrMayNotEndInPadding) {
  GgufBuilder builder;
  builder.key_u16("split.count", 2);
  for (std::uint64_t size = builder.header_end(); size <= builder.data_position(); ++size) {
    std::string bytes = builder.bytes();
    bytes.resize(size);
    EXPECT_EQ(warnings_of(bytes), "") << size;
  }
}

TEST(GgufTest, RankZeroAndZeroSizesAreListed) {
  GgufBuilder builder;
  builder.tensor("scalar", {}, 0, 0).tensor("empty", {32, 0}, 8, 32).tensor("nothing", {0}, 2, 32);
  builder.data = std::string(32, '\0');
  const Header header = parse(builder.bytes());
  EXPECT_EQ(header.tensors[0].bytes, 4U);
  EXPECT_EQ(header.tensors[1].bytes, 0U);
  EXPECT_EQ(header.tensors[2].bytes, 0U);
}

TEST(GgufTest, NamesMayHoldAnyBytes) {
  GgufBuilder builder;
  builder.key_u32(std::string("\xff\x00\x1b", 3), 1).tensor("../\n\xc0", {8}, 24, 0);
  builder.data = std::string(32, '\0');
  const Header header = parse(builder.bytes());
  EXPECT_EQ(header.keys[0].name, std::string("\xff\x00\x1b", 3));
  EXPECT_EQ(header.tensors[0].name, "../\n\xc0");
}

TEST(GgufTest, ATensorNameOfSixtyFourKibIsAccepted) {
  GgufBuilder builder;
  builder.tensor(std::string(65536, 'n'), {8}, 24, 0);
  builder.data = std::string(32, '\0');
  EXPECT_EQ(parse(builder.bytes()).tensors[0].name.size(), 65536U);
}

TEST(GgufWarningTest, GapsBetweenTensors) {
  GgufBuilder builder;
  builder.tensor("a", {32}, 24, 0).tensor("b", {32}, 24, 64);
  builder.data = std::string(96, '\0');
  EXPECT_EQ(warnings_of(builder.bytes()), "W-GGUF-GAP");
}

TEST(GgufWarningTest, AnotherOrderThanTheTable) {
  GgufBuilder builder;
  builder.tensor("a", {32}, 24, 32).tensor("b", {32}, 24, 0);
  builder.data = std::string(64, '\0');
  EXPECT_EQ(warnings_of(builder.bytes()), "W-GGUF-ORDER");
}

TEST(GgufWarningTest, NonZeroPaddingBeforeBetweenAndAfter) {
  GgufBuilder builder;
  builder.tensor("a", {8}, 24, 0).tensor("b", {8}, 24, 32);
  builder.data = std::string(64, '\0');
  EXPECT_EQ(warnings_of(builder.bytes()), "");
  std::string before = builder.bytes();
  before[builder.data_position() - 1] = '\1';
  EXPECT_EQ(warnings_of(before), "W-GGUF-PADDING");
  for (const std::size_t at : {std::size_t{8}, std::size_t{31}, std::size_t{63}}) {
    GgufBuilder dirty = builder;
    dirty.data[at] = '\1';
    EXPECT_EQ(warnings_of(dirty.bytes()), "W-GGUF-PADDING") << at;
  }
}

TEST(GgufWarningTest, MissingFinalPadding) {
  GgufBuilder builder;
  builder.tensor("a", {8}, 24, 0);
  for (std::size_t size = 8; size < 32; ++size) {
    builder.data = std::string(size, '\0');
    EXPECT_EQ(warnings_of(builder.bytes()), "W-GGUF-FINAL-PADDING") << size;
  }
}

TEST(GgufWarningTest, BytesAfterTheLastTensor) {
  GgufBuilder builder;
  builder.tensor("a", {8}, 24, 0);
  builder.data = std::string(33, '\0');
  EXPECT_EQ(warnings_of(builder.bytes()), "W-GGUF-TRAILING");
}

}  // namespace
}  // namespace vindex::gguf::header_test
