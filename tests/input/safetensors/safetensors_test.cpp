// safetensors headers: what is read, and one field wrong each.
#include "input/safetensors/safetensors.hpp"

#include "tests/support/expect_error.hpp"
#include "tests/support/faulty_source.hpp"
#include "tests/support/safetensors_builder.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace vindex::input::safetensors_test {
namespace {

using testing::at_byte;
using testing::braces;
using testing::bytes_of;
using testing::Fault;
using testing::FaultySource;
using testing::safetensors_entry;
using testing::safetensors_file;
using testing::small_safetensors;

SafetensorsHeader parse(const std::string& bytes) {
  const auto source = make_memory_source("memory.safetensors", bytes_of(bytes));
  return read_safetensors_header(*source);
}

std::string error_of(const std::string& bytes) {
  return testing::error_of([&] { parse(bytes); });
}

/// Error of a file whose header is this list of entries.
std::string entry_error(const std::string& entries, std::size_t data_bytes) {
  return error_of(safetensors_file(braces(entries), data_bytes));
}

constexpr std::uint64_t kFirstName = 10;  // 8 length bytes, '{', '"'

TEST(SafetensorsTest, TensorsHaveAbsoluteOffsetsInFileOrder) {
  const std::string header = braces(safetensors_entry("late", "I64", "1", "6,14") + "," +
                                    safetensors_entry("first", "F16", "3,1", "0,6")) +
                             "   ";
  const std::string bytes = safetensors_file(header, 14);
  const SafetensorsHeader parsed = parse(bytes);
  EXPECT_EQ(parsed.data_offset, 8 + header.size());
  ASSERT_EQ(parsed.tensors.size(), 2U);
  EXPECT_EQ(parsed.tensors[0].name, "first");
  EXPECT_EQ(parsed.tensors[0].shape, (std::vector<std::int64_t>{3, 1}));
  EXPECT_EQ(parsed.tensors[1].type, decode::ElementType::kI64);
  EXPECT_EQ(parsed.tensors[1].offset, parsed.data_offset + 6);
  EXPECT_EQ(parsed.tensors[1].bytes, 8U);
}

TEST(SafetensorsTest, EveryDtypeHasItsSize) {
  const std::vector<std::pair<const char*, int>> dtypes = {
      {"BOOL", 8},    {"U8", 8},          {"I8", 8},   {"F8_E4M3", 8},     {"F8_E5M2", 8},
      {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"I16", 16}, {"F8_E5M2FNUZ", 8}, {"U16", 16},
      {"F16", 16},    {"BF16", 16},       {"I32", 32}, {"U32", 32},        {"F32", 32},
      {"C64", 64},    {"F64", 64},        {"I64", 64}, {"U64", 64},        {"F4", 4},
      {"F6_E2M3", 6}, {"F6_E3M2", 6}};
  for (const auto& [dtype, bits] : dtypes) {
    const int bytes = 8 * bits / 8;
    EXPECT_EQ(entry_error(safetensors_entry("a", dtype, "8", "0," + std::to_string(bytes)),
                          static_cast<std::size_t>(bytes)),
              "none")
        << dtype;
    EXPECT_EQ(entry_error(safetensors_entry("a", dtype, "8", "0," + std::to_string(bytes + 1)),
                          static_cast<std::size_t>(bytes + 1)),
              at_byte("E-ST-SIZE", kFirstName))
        << dtype;
  }
}

TEST(SafetensorsTest, ATensorWithoutANameIsRefused) {
  EXPECT_EQ(entry_error(safetensors_entry("", "F32", "2", "0,8"), 8),
            at_byte("E-ST-NAME", kFirstName));
}

TEST(SafetensorsTest, RankZeroZeroSizesAndEmptyFilesAreLegal) {
  const SafetensorsHeader header =
      parse(safetensors_file(braces(safetensors_entry("s", "F32", "", "0,4") + "," +
                                    safetensors_entry("e", "F32", "3,0,5", "4,4") + "," +
                                    safetensors_entry("f", "F32", "0", "0,0")),
                             4));
  ASSERT_EQ(header.tensors.size(), 3U);
  EXPECT_TRUE(header.tensors[1].shape.empty());
  EXPECT_EQ(header.tensors[2].shape, (std::vector<std::int64_t>{3, 0, 5}));
  EXPECT_EQ(error_of(safetensors_file("{}", 0)), "none");
  EXPECT_EQ(error_of(safetensors_file("{\"__metadata__\":{\"format\":\"pt\"}}", 0)), "none");
}

TEST(SafetensorsTest, NamesMayHoldEscapesAndAnyCharacter) {
  const SafetensorsHeader header =
      parse(safetensors_file(braces(safetensors_entry("..\\/\\u00e9\\n", "U8", "1", "0,1")), 1));
  EXPECT_EQ(header.tensors[0].name, "../\xC3\xA9\n");
}

TEST(SafetensorsTest, TheDigestCoversLengthAndHeader) {
  std::string bytes = small_safetensors();
  const std::string before = parse(bytes).header_sha256;
  bytes.back() = 'x';
  EXPECT_EQ(parse(bytes).header_sha256, before);
  bytes[kFirstName] = 'c';
  EXPECT_NE(parse(bytes).header_sha256, before);
}

TEST(SafetensorsHostileTest, LengthsThatDoNotFit) {
  EXPECT_EQ(error_of(""), at_byte("E-ST-LENGTH", 0));
  EXPECT_EQ(error_of("1234567"), at_byte("E-ST-LENGTH", 0));
  for (const std::uint64_t length :
       {std::uint64_t{3}, std::uint64_t{100'000'001}, std::uint64_t{1} << 63U, ~std::uint64_t{0},
        ~std::uint64_t{7}}) {
    EXPECT_EQ(error_of(safetensors_file("{}", 0, length)), at_byte("E-ST-LENGTH", 0)) << length;
  }
}

TEST(SafetensorsHostileTest, HeadersThatBeginOrEndOtherwise) {
  for (const char* header : {"", " {}", "[]", "\xEF\xBB\xBF{}", "null", "\n{}"}) {
    EXPECT_EQ(error_of(safetensors_file(header, 0)), at_byte("E-ST-HEADER", 8)) << header;
  }
  EXPECT_EQ(error_of(safetensors_file("{}  ", 0)), "none");
  EXPECT_EQ(error_of(safetensors_file("{}\n", 0)), at_byte("E-JSON-TRAILING", 10));
  EXPECT_EQ(error_of(safetensors_file(std::string("{}\0", 3), 0)), at_byte("E-JSON-TRAILING", 10));
  EXPECT_EQ(error_of(safetensors_file("{}{}", 0)), at_byte("E-JSON-TRAILING", 10));
}

TEST(SafetensorsHostileTest, DuplicateNames) {
  const std::string entry = safetensors_entry("a", "U8", "1", "0,1");
  EXPECT_EQ(entry_error(entry + "," + safetensors_entry("a", "U8", "1", "1,2"), 2),
            at_byte("E-JSON-DUPLICATE-KEY", kFirstName + entry.size() + 1));
  EXPECT_EQ(entry_error("\"__metadata__\":{\"k\":\"\",\"k\":\"\"}", 0).substr(0, 20),
            "E-JSON-DUPLICATE-KEY");
  EXPECT_EQ(entry_error("\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[1],"
                        "\"data_offsets\":[0,1]}",
                        1)
                .substr(0, 20),
            "E-JSON-DUPLICATE-KEY");
}

TEST(SafetensorsHostileTest, TensorsMustTileTheData) {
  const std::string first = safetensors_entry("a", "U8", "4", "0,4");
  const std::uint64_t second = kFirstName + first.size() + 1;
  EXPECT_EQ(entry_error(first + "," + safetensors_entry("b", "U8", "4", "5,9"), 9),
            at_byte("E-ST-TILING", second));  // a hole
  EXPECT_EQ(entry_error(first + "," + safetensors_entry("b", "U8", "4", "3,7"), 7),
            at_byte("E-ST-TILING", second));  // an overlap
  EXPECT_EQ(entry_error(first + "," + safetensors_entry("b", "U8", "4", "0,4"), 4),
            at_byte("E-ST-TILING", second));  // the same bytes
  EXPECT_EQ(entry_error(safetensors_entry("a", "U8", "4", "1,5"), 5),
            at_byte("E-ST-TILING", kFirstName));  // not from the start
  EXPECT_EQ(entry_error(first, 5), at_byte("E-ST-TILING", 8 + first.size() + 2 + 4));  // left over
  EXPECT_EQ(entry_error("", 1), at_byte("E-ST-TILING", 10));
}

TEST(SafetensorsHostileTest, OffsetsOutsideTheDataOrBackwards) {
  for (const char* offsets : {"0,5", "5,4", "4,0", "0,18446744073709551615",
                              "18446744073709551615,18446744073709551615", "0", "", "0,4,4"}) {
    EXPECT_EQ(entry_error(safetensors_entry("a", "U8", "4", offsets), 4),
              at_byte("E-ST-OFFSETS", kFirstName))
        << offsets;
  }
}

TEST(SafetensorsHostileTest, ShapesThatOverflowOrDoNotMatch) {
  for (const char* shape :
       {"4294967296,4294967296", "4294967296,4294967296,0", "9223372036854775808",
        "18446744073709551615", "0,9223372036854775808", "9223372036854775807,2"}) {
    EXPECT_EQ(entry_error(safetensors_entry("a", "U8", shape, "0,4"), 4),
              at_byte("E-ST-SHAPE", kFirstName))
        << shape;
  }
  // 2^61 elements of 8 bytes: the bytes wrap to 0
  EXPECT_EQ(entry_error(safetensors_entry("a", "F64", "2305843009213693952", "0,0"), 0),
            at_byte("E-ST-SHAPE", kFirstName));
  EXPECT_EQ(entry_error(safetensors_entry("a", "F4", "3", "0,2"), 2),
            at_byte("E-ST-SHAPE", kFirstName));
  EXPECT_EQ(entry_error(safetensors_entry("a", "U8", "5", "0,4"), 4),
            at_byte("E-ST-SIZE", kFirstName));
  std::string ones = "1";
  for (int i = 1; i < 64; ++i) {
    ones += ",1";
  }
  EXPECT_EQ(entry_error(safetensors_entry("a", "U8", ones, "0,1"), 1), "none");
  EXPECT_EQ(entry_error(safetensors_entry("a", "U8", ones + ",1", "0,1"), 1),
            at_byte("E-ST-SHAPE", kFirstName));
}

TEST(SafetensorsHostileTest, NumbersThatAreNoUnsignedIntegers) {
  for (const char* shape : {"-1", "4.0", "4e0", "18446744073709551616"}) {
    EXPECT_EQ(entry_error(safetensors_entry("a", "U8", shape, "0,4"), 4).substr(0, 13),
              "E-JSON-NUMBER")
        << shape;
  }
  for (const char* shape : {"\"4\"", "null", "true", "[4]", "{}"}) {
    EXPECT_NE(entry_error(safetensors_entry("a", "U8", shape, "0,4"), 4), "none") << shape;
  }
}

TEST(SafetensorsHostileTest, EntriesOfOtherForms) {
  EXPECT_EQ(entry_error(safetensors_entry("a", "F31", "1", "0,4"), 4),
            at_byte("E-ST-DTYPE", kFirstName));
  EXPECT_EQ(entry_error(safetensors_entry("a", "f32", "1", "0,4"), 4),
            at_byte("E-ST-DTYPE", kFirstName));
  for (const char* entry :
       {"\"a\":{\"dtype\":\"U8\",\"shape\":[1]}", "\"a\":{\"shape\":[1],\"data_offsets\":[0,1]}",
        "\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}", "\"a\":{}",
        "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],\"order\":\"F\"}"}) {
    EXPECT_EQ(entry_error(entry, 1), at_byte("E-ST-FIELD", kFirstName)) << entry;
  }
  for (const char* entry : {"\"a\":1", "\"a\":null", "\"a\":[]", "\"a\":\"x\""}) {
    EXPECT_EQ(entry_error(entry, 1), at_byte("E-JSON-SYNTAX", 13)) << entry;
  }
  EXPECT_EQ(entry_error("\"__metadata__\":{\"k\":1}", 0).substr(0, 13), "E-ST-METADATA");
  EXPECT_EQ(entry_error("\"__metadata__\":{\"k\":{\"x\":\"\"}}", 0).substr(0, 13), "E-ST-METADATA");
  EXPECT_NE(entry_error("\"__metadata__\":[]", 0), "none");
}

TEST(SafetensorsHostileTest, DeepNestingIsRefusedAtOnce) {
  EXPECT_NE(error_of(safetensors_file("{\"a\":" + std::string(1'000'000, '['), 0)), "none");
  EXPECT_NE(error_of(safetensors_file("{\"a\":{\"shape\":" + std::string(1'000'000, '['), 0)),
            "none");
}

TEST(SafetensorsHostileTest, NamesBeyondSixtyFourKib) {
  EXPECT_EQ(entry_error(safetensors_entry(std::string(65'536, 'n'), "U8", "1", "0,1"), 1), "none");
  EXPECT_EQ(entry_error(safetensors_entry(std::string(65'537, 'n'), "U8", "1", "0,1"), 1),
            at_byte("E-ST-LIMIT", kFirstName));
}

TEST(SafetensorsHostileTest, CutShortAtEveryByte) {
  const std::string whole = small_safetensors();
  ASSERT_EQ(error_of(whole), "none");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_NE(error_of(whole.substr(0, size)), "none") << size;
  }
  EXPECT_NE(error_of(whole + "x"), "none");
}

TEST(SafetensorsHostileTest, EveryReadMayFail) {
  const std::string bytes = small_safetensors();
  const auto inner = make_memory_source("memory.safetensors", bytes_of(bytes));
  FaultySource counting(*inner, Fault::kFails, 1000);
  read_safetensors_header(counting);
  ASSERT_GE(counting.reads(), 2U);
  for (std::uint64_t read = 0; read < counting.reads(); ++read) {
    FaultySource failing(*inner, Fault::kFails, read);
    EXPECT_EQ(testing::error_of([&] { read_safetensors_header(failing); }), "E-READ");
    FaultySource ending(*inner, Fault::kEndsEarly, read);
    EXPECT_EQ(testing::error_of([&] { read_safetensors_header(ending); }), "E-TRUNCATED");
  }
}

TEST(SafetensorsHostileTest, EveryByteOfTheHeaderMayBeWrong) {
  const std::string whole = small_safetensors();
  std::size_t refused = 0;
  for (std::size_t at = 0; at + 24 < whole.size(); ++at) {
    for (int byte = 0; byte < 256; ++byte) {
      std::string bytes = whole;
      bytes[at] = static_cast<char>(byte);
      refused += error_of(bytes) == "none" ? 0 : 1;
    }
  }
  EXPECT_GT(refused, 10'000U);
}

}  // namespace
}  // namespace vindex::input::safetensors_test
