// Values of keys as bytes, texts and digests, from every container; where arrays first differ.
#include "gguf/values/value.hpp"

#include "gguf/read_header.hpp"
#include "input/local/file_source.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/gguf_builder.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace vindex::gguf::value_test {
namespace {

using testing::GgufBuilder;
using testing::little_endian;

/// A header in memory and the values of its keys.
class Opened {
 public:
  explicit Opened(const GgufBuilder& builder)
      : bytes_(builder.bytes()),
        source_(input::make_memory_source("test", testing::bytes_of(bytes_))),
        header_(read_header(*source_)) {}
  Value value(const std::string& name) const {
    return {*find_key(header_.keys, name), header_, *source_};
  }

 private:
  std::string bytes_;
  std::unique_ptr<ByteSource> source_;
  Header header_;
};

GgufBuilder sample(std::uint32_t version = 3, bool big_endian = false) {
  GgufBuilder builder(version, big_endian);
  builder.key_u32("a.u32", 4000000000U);
  builder.key("a.i8", 1, std::string(1, '\xF9'));
  builder.key("a.f32", 6, builder.number(std::uint32_t{0x3DCCCCCD}));  // 0.1
  builder.key("a.bool", 7, std::string(1, '\1'));
  builder.key_string("a.text", "two\nlines");
  builder.key_array("a.numbers", 5, 3,
                    builder.number(std::int32_t{-1}) + builder.number(std::int32_t{2}) +
                        builder.number(std::int32_t{70000}));
  builder.key_array("a.words", 8, 3, builder.text("x") + builder.text("") + builder.text("zz"));
  return builder;
}

TEST(GgufValue, TextsOfEveryKind) {
  const Opened file(sample());
  EXPECT_EQ(file.value("a.u32").text(), "4000000000");
  EXPECT_EQ(file.value("a.i8").text(), "-7");
  EXPECT_EQ(file.value("a.f32").text(), "0.1");
  EXPECT_EQ(file.value("a.bool").text(), "true");
  EXPECT_EQ(file.value("a.text").text(), "\"two\\x0alines\"");
  EXPECT_EQ(file.value("a.text").text(3), "\"two...\"");
  EXPECT_EQ(file.value("a.numbers").text(), "3 x i32");
  EXPECT_EQ(file.value("a.numbers").element_text(2), "70000");
  EXPECT_EQ(file.value("a.words").element_text(1), "\"\"");
  EXPECT_EQ(file.value("a.words").element_text(2), "\"zz\"");
  EXPECT_EQ(type_text(ValueType::kArray, ValueType::kString), "[str]");
}

TEST(GgufValue, ContainersMakeNoDifference) {
  const Opened little(sample());
  for (const GgufBuilder& other : {sample(1), sample(2), sample(2, true), sample(3, true)}) {
    const Opened file(other);
    for (const char* name :
         {"a.u32", "a.i8", "a.f32", "a.bool", "a.text", "a.numbers", "a.words"}) {
      EXPECT_EQ(file.value(name).digest(), little.value(name).digest()) << name;
      EXPECT_EQ(file.value(name).text(), little.value(name).text()) << name;
    }
    EXPECT_FALSE(first_difference(file.value("a.words"), little.value("a.words")));
  }
}

TEST(GgufValue, EqualValuesOfOtherTypesDiffer) {
  GgufBuilder builder;
  builder.key_u32("a", 1).key_i32("b", 1);
  const Opened file(builder);
  EXPECT_NE(file.value("a").digest(), file.value("b").digest());
}

Opened words(const std::vector<std::string>& list) {
  GgufBuilder builder;
  std::string elements;
  for (const std::string& word : list) {
    elements += builder.text(word);
  }
  builder.key_array("a", 8, list.size(), elements);
  return Opened(builder);
}

Opened numbers(const std::vector<std::uint16_t>& list) {
  GgufBuilder builder;
  std::string elements;
  for (const std::uint16_t number : list) {
    elements += little_endian(number);
  }
  builder.key_array("a", 2, list.size(), elements);
  return Opened(builder);
}

std::string first(const Opened& a, const Opened& b) {
  const auto found = first_difference(a.value("a"), b.value("a"));
  return found ? std::to_string(found->index) + " " + found->a + " " + found->b : "none";
}

TEST(GgufValue, WhereArraysFirstDiffer) {
  EXPECT_EQ(first(words({"a", "b", "c"}), words({"a", "b", "c"})), "none");
  EXPECT_EQ(first(words({"a", "b", "c"}), words({"a", "x", "c"})), "1 \"b\" \"x\"");
  EXPECT_EQ(first(words({"a", "b"}), words({"a", "bb"})), "1 \"b\" \"bb\"");  // in the length
  EXPECT_EQ(first(words({"", "b"}), words({"a", "b"})), "0 \"\" \"a\"");
  EXPECT_EQ(first(words({"a"}), words({"a", "b"})), "1  \"b\"");
  EXPECT_EQ(first(words({"a", "b"}), words({"a"})), "1 \"b\" ");
  EXPECT_EQ(first(words({}), words({})), "none");
  EXPECT_EQ(first(words({}), words({"a"})), "0  \"a\"");
  EXPECT_EQ(first(numbers({1, 2, 3}), numbers({1, 2, 3})), "none");
  EXPECT_EQ(first(numbers({1, 2, 3}), numbers({1, 258, 3})), "1 2 258");
  EXPECT_EQ(first(numbers({1, 2}), numbers({1, 2, 3})), "2  3");
}

TEST(GgufValue, LongArraysAreReadPieceByPiece) {
  // Beyond the 64 KiB that are held and read at once, with elements across the borders.
  std::vector<std::string> list(9000, "seventeen letters");
  std::vector<std::string> other = list;
  other[7777] = "seventeen lettres";
  EXPECT_EQ(first(words(list), words(list)), "none");
  EXPECT_EQ(first(words(list), words(other)), "7777 \"seventeen letters\" \"seventeen lettres\"");
  std::vector<std::uint16_t> some(100000, 5);
  std::vector<std::uint16_t> more = some;
  more[99999] = 6;
  EXPECT_EQ(first(numbers(some), numbers(more)), "99999 5 6");
}

}  // namespace
}  // namespace vindex::gguf::value_test
