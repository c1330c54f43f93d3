// GGUF headers with one field wrong: each is refused with its id, at its byte. Patterns of public
// advisories are named; the project they were found in is not the point, the pattern is.
#include "support/expect_error.hpp"
#include "support/faulty_source.hpp"
#include "support/gguf_builder.hpp"

#include <vindex/shard/gguf.hpp>

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace vindex::shard {
namespace {

using testing::at_byte;
using testing::bytes_of;
using testing::Fault;
using testing::FaultySource;
using testing::gguf_string;
using testing::GgufBuilder;
using testing::little_endian;
using testing::small_gguf;

constexpr std::uint64_t kTwoTo63 = std::uint64_t{1} << 63U;
constexpr std::uint64_t kAll = ~std::uint64_t{0};

std::string error_of(const std::string& bytes) {
  const auto source = make_memory_source("memory.gguf", bytes_of(bytes));
  return testing::error_of([&] { read_gguf_header(*source); });
}

std::string type_error(std::uint32_t type) {
  GgufBuilder builder;
  builder.tensor("a", {256}, type, 0);
  builder.data = std::string(4096, '\0');
  const std::string bytes = builder.bytes();
  const auto source = make_memory_source("memory.gguf", bytes_of(bytes));
  try {
    read_gguf_header(*source);
  } catch (const FormatError& error) {
    EXPECT_EQ(error.id(), "E-GGUF-TYPE");
    return error.what();
  }
  return "none";
}

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
  for (const std::uint32_t version : {0U, 1U, 4U, 0x00010003U}) {
    builder.version = version;
    EXPECT_EQ(error_of(builder.bytes()), at_byte("E-GGUF-VERSION", 4)) << version;
  }
  for (const std::uint32_t version : {0x01000000U, 0x02000000U, 0x03000000U, 0x00010000U}) {
    builder.version = version;
    EXPECT_EQ(error_of(builder.bytes()), at_byte("E-GGUF-ENDIAN", 4)) << version;
  }
}

TEST(GgufHostileTest, TensorCountsCve2024_21836) {
  GgufBuilder builder = small_gguf();
  for (const std::uint64_t count : {std::uint64_t{1'000'001}, kTwoTo63, kAll, kAll / 80 + 1}) {
    builder.tensor_count = count;
    EXPECT_EQ(error_of(builder.bytes()), at_byte("E-GGUF-COUNT", 8)) << count;
  }
}

TEST(GgufHostileTest, KeyCountsCve2024_23605AndCve2024_25664) {
  GgufBuilder builder = small_gguf();
  for (const std::uint64_t count : {std::uint64_t{1'000'001}, kTwoTo63, kAll, kAll / 128 + 1}) {
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

TEST(GgufHostileTest, StringLengthsCve2024_23496AndCve2025_49847) {
  for (const std::uint64_t length :
       {kAll, kAll - 7, kTwoTo63, std::uint64_t{1} << 31U, std::uint64_t{1'000'000}}) {
    GgufBuilder builder;
    builder.key("text", 8, little_endian(length) + "abc");
    EXPECT_EQ(error_of(builder.bytes()), at_byte("E-GGUF-STRING", builder.key_value_position(0)))
        << length;
  }
}

TEST(GgufHostileTest, KeyNameLengths) {
  for (const std::uint64_t length : {kAll, kTwoTo63, std::uint64_t{65'537}}) {
    std::string bytes = GgufBuilder().key_u32("k", 1).bytes() + std::string(70'000, 'x');
    bytes.replace(24, 8, little_endian(length));
    EXPECT_EQ(error_of(bytes), at_byte("E-GGUF-STRING", 24)) << length;
  }
}

TEST(GgufHostileTest, TensorNameLengths) {
  const GgufBuilder builder = small_gguf();
  for (const std::uint64_t length : {kAll, kTwoTo63, std::uint64_t{65'537}}) {
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
         {kAll, kTwoTo63, kAll / 8 + 1, kAll / 4 + 1, std::uint64_t{1} << 31U}) {
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
  GgufBuilder builder;
  builder.key_array("array", 8, 2, gguf_string("one") + little_endian(kAll));
  EXPECT_EQ(error_of(builder.bytes()),
            at_byte("E-GGUF-STRING", builder.key_value_position(0) + 12 + 11));
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

// CVE-2024-21802: dimensions written past a fixed array; gguf-py issue 25401: a million of them.
TEST(GgufHostileTest, MoreThanFourDimensionsCve2024_21802) {
  for (const std::uint32_t rank : {5U, 8U, 1'000'000U, 0xFFFFFFFFU}) {
    GgufBuilder builder;
    builder.raw_tensor("a", rank, std::string(40, '\1'), 0, 0);
    EXPECT_EQ(error_of(builder.bytes()), at_byte("E-GGUF-DIMENSIONS", builder.rank_position(0)));
  }
}

// Products that wrap to something small or to zero (CVE-2026-33298, gguf-py issue 25401), and a
// zero that hides the others' overflow.
TEST(GgufHostileTest, DimensionProductsCve2026_33298) {
  const std::uint64_t two32 = std::uint64_t{1} << 32U;
  const std::vector<std::vector<std::uint64_t>> shapes = {{kAll},
                                                          {kTwoTo63},
                                                          {two32, two32},
                                                          {two32, two32, 0},
                                                          {4, kTwoTo63 / 2},
                                                          {two32, two32 / 2},
                                                          {1, 1, kTwoTo63, 2},
                                                          {kAll, kAll, kAll, kAll}};
  for (const auto& shape : shapes) {
    GgufBuilder builder;
    builder.tensor("a", shape, 24, 0);
    builder.data = std::string(64, '\0');
    EXPECT_EQ(error_of(builder.bytes()), at_byte("E-GGUF-SHAPE", builder.rank_position(0) + 4));
  }
}

TEST(GgufHostileTest, BytesThatOverflowThoughElementsDoNot) {
  GgufBuilder builder;
  builder.tensor("a", {kTwoTo63 - 8}, 28, 0);  // F64
  builder.data = std::string(64, '\0');
  EXPECT_EQ(error_of(builder.bytes()), at_byte("E-GGUF-SHAPE", builder.rank_position(0) + 4));
}

// Elements no multiple of the block (CVE-2024-42477): rows would share blocks.
TEST(GgufHostileTest, FirstDimensionsThatDoNotFillBlocksCve2024_42477) {
  for (const auto& shape : {std::vector<std::uint64_t>{33}, {16, 2}, {1, 32}, {}}) {
    GgufBuilder builder;
    builder.tensor("a", shape, 8, 0);
    builder.data = std::string(4096, '\0');
    EXPECT_EQ(error_of(builder.bytes()), at_byte("E-GGUF-BLOCK", builder.rank_position(0) + 4));
  }
}

// Offset and size beyond the end of the file (CVE-2026-7482, "Bleeding Llama").
TEST(GgufHostileTest, DataBeyondTheFileCve2026_7482) {
  for (const std::uint64_t offset : {std::uint64_t{64}, std::uint64_t{1} << 40U, kAll - 31}) {
    GgufBuilder builder = small_gguf();
    builder.tensor("c", {64}, 24, offset);
    builder.data.resize(96);
    EXPECT_EQ(error_of(builder.bytes()), at_byte("E-GGUF-RANGE", builder.tensor_position(2)));
  }
  GgufBuilder cut = small_gguf();
  cut.data.resize(67);
  EXPECT_EQ(error_of(cut.bytes()), at_byte("E-GGUF-RANGE", cut.tensor_position(1)));
}

// Sums of sizes that wrap (CVE-2025-53630) and the bypass by two tensors near 2^63 bytes
// (CVE-2026-27940): each tensor is compared with the file, so no sum is ever believed.
TEST(GgufHostileTest, SumsOfSizesCve2025_53630AndCve2026_27940) {
  GgufBuilder builder;
  builder.tensor("a", {kTwoTo63 - 32}, 24, 0).tensor("b", {kTwoTo63 - 32}, 24, kTwoTo63 - 32);
  builder.tensor("c", {128}, 24, kAll - 31);
  builder.data = std::string(128, '\0');
  EXPECT_EQ(error_of(builder.bytes()), at_byte("E-GGUF-RANGE", builder.tensor_position(0)));
}

TEST(GgufHostileTest, OffsetsMustBeAligned) {
  GgufBuilder builder;
  builder.tensor("a", {8}, 24, 16);
  builder.data = std::string(64, '\0');
  EXPECT_EQ(error_of(builder.bytes()), at_byte("E-GGUF-OFFSET", builder.offset_position(0)));
}

TEST(GgufHostileTest, TensorsMayNotOverlap) {
  GgufBuilder same;
  same.tensor("a", {8}, 24, 0).tensor("b", {8}, 24, 0);
  same.data = std::string(64, '\0');
  EXPECT_EQ(error_of(same.bytes()), at_byte("E-GGUF-OVERLAP", same.tensor_position(1)));
  GgufBuilder inside;
  inside.tensor("small", {8}, 24, 32).tensor("large", {96}, 24, 0);
  inside.data = std::string(96, '\0');
  EXPECT_EQ(error_of(inside.bytes()), at_byte("E-GGUF-OVERLAP", inside.tensor_position(0)));
}

// Type ids out of range (CVE-2024-42478), removed, for computing only, and of forks.
TEST(GgufHostileTest, RefusedTypesAreNamedCve2024_42478) {
  const std::vector<std::pair<std::uint32_t, const char*>> known = {{4, "Q4_2"},
                                                                    {5, "Q4_3"},
                                                                    {9, "Q8_1"},
                                                                    {15, "Q8_K"},
                                                                    {31, "Q4_0_4_4"},
                                                                    {33, "Q4_0_8_8"},
                                                                    {36, "I2_S"},
                                                                    {37, "I8_S"},
                                                                    {38, "TL1"},
                                                                    {133, "Q6_0"},
                                                                    {137, "IQ2_K"},
                                                                    {141, "IQ6_K"},
                                                                    {144, "IQ4_KS"},
                                                                    {157, "IQ2_KL"},
                                                                    {158, "IQ1_KT"},
                                                                    {202, "_R4"},
                                                                    {43, "unknown"},
                                                                    {0x80000000U, "unknown"},
                                                                    {0xFFFFFFFFU, "unknown"}};
  for (const auto& [type, name] : known) {
    EXPECT_NE(type_error(type).find(name), std::string::npos) << type;
  }
}

TEST(GgufHostileTest, TypeThirtyNineIsMxfp4ButInBitnetFiles) {
  for (const char* architecture : {"llama", "bitnet-b1.58", "bitnet"}) {
    GgufBuilder builder;
    builder.key_string("general.architecture", architecture).tensor("a", {32}, 39, 0);
    builder.data = std::string(32, '\0');
    EXPECT_EQ(error_of(builder.bytes()), std::string(architecture) == "llama"
                                             ? "none"
                                             : at_byte("E-GGUF-TYPE", builder.type_position(0)));
  }
}

// A short read that is not noticed (CVE-2024-41130, CVE-2024-32878): cut at every byte, a file is
// refused, or complete but for its final padding.
TEST(GgufHostileTest, CutShortAtEveryByteCve2024_41130) {
  GgufBuilder builder = small_gguf();
  builder.key_array("tokens", 8, 2, gguf_string("x") + gguf_string("y"));
  builder.key_array("integers", 4, 2, std::string(8, '\0'));
  const std::string whole = builder.bytes();
  const std::size_t data_end = builder.data_position() + 68;
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const std::string error = error_of(whole.substr(0, size));
    EXPECT_EQ(error == "none", size >= data_end) << size << " " << error;
  }
}

TEST(GgufHostileTest, EveryReadMayFail) {
  GgufBuilder builder = small_gguf();
  builder.key_array("tokens", 8, 100'000, std::string(800'000, '\0'));  // several windows
  const std::string bytes = builder.bytes();
  const auto inner = make_memory_source("memory.gguf", bytes_of(bytes));
  FaultySource counting(*inner, Fault::kFails, kAll);
  read_gguf_header(counting);
  ASSERT_GT(counting.reads(), 8U);
  for (std::uint64_t read = 0; read < counting.reads(); ++read) {
    FaultySource failing(*inner, Fault::kFails, read);
    EXPECT_EQ(testing::error_of([&] { read_gguf_header(failing); }), "E-READ");
    FaultySource ending(*inner, Fault::kEndsEarly, read);
    EXPECT_EQ(testing::error_of([&] { read_gguf_header(ending); }), "E-TRUNCATED");
  }
}

// Every byte set to 0, 255 and each of its bits flipped: refused or read, nothing else.
TEST(GgufHostileTest, EveryByteOfTheHeaderMayBeWrong) {
  const GgufBuilder builder = small_gguf();
  const std::string whole = builder.bytes();
  std::size_t refused = 0;
  for (std::size_t at = 0; at < builder.data_position(); ++at) {
    for (int change = 0; change < 10; ++change) {
      std::string bytes = whole;
      bytes[at] = change < 8 ? static_cast<char>(bytes[at] ^ (1 << change))
                             : static_cast<char>(change == 8 ? 0 : 255);
      refused += error_of(bytes) == "none" ? 0 : 1;
    }
  }
  EXPECT_GT(refused, 1000U);
}

}  // namespace
}  // namespace vindex::shard
