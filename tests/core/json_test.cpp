// Strict reading of JSON: what is accepted with every bit of its values, what is refused at which
// byte, and agreement with another parser over every change of one byte.
#include "core/json/json.hpp"

#include "core/json/json_scanner.hpp"
#include "tests/support/expect_error.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <limits>
#include <string>
#include <variant>

namespace vindex::json_test {
namespace {

using testing::at_byte;

JsonValue parse(const std::string& text, const JsonLimits& limits = {}) {
  return parse_json(text, "file.json", limits);
}

std::string error_of(const std::string& text, const JsonLimits& limits = {}) {
  return testing::error_of([&] { parse(text, limits); });
}

std::string quoted(std::string_view content) {
  std::string text(1, '"');
  text.append(content);
  text.push_back('"');
  return text;
}

JsonLimits unsigned_only() {
  JsonLimits limits;
  limits.unsigned_integers_only = true;
  return limits;
}

TEST(JsonTest, ObjectsKeepFileOrderAndValuesTheirKind) {
  const JsonValue value =
      parse(" {\"b\": [1, -2, 3.5, true, null, \"x\"],\n\t\"a\": {}, \"\": 1e2}\r\n");
  ASSERT_NE(value.as_object(), nullptr);
  EXPECT_EQ(value.as_object()->at(0).first, "b");
  EXPECT_EQ(value.as_object()->at(1).first, "a");
  const JsonValue::Array& array = *value.find("b")->as_array();
  EXPECT_EQ(*array[0].as_unsigned(), 1U);
  EXPECT_EQ(std::get<std::int64_t>(array[1].storage()), -2);
  EXPECT_EQ(std::get<double>(array[2].storage()), 3.5);
  EXPECT_TRUE(*array[3].as_bool());
  EXPECT_TRUE(array[4].is_null());
  EXPECT_EQ(*array[5].as_string(), "x");
  EXPECT_EQ(std::get<double>(value.find("")->storage()), 100.0);
  EXPECT_EQ(value.find("absent"), nullptr);
  EXPECT_EQ(array[0].find("b"), nullptr);
}

TEST(JsonTest, IntegersKeepEveryBit) {
  EXPECT_EQ(*parse("18446744073709551615").as_unsigned(), ~std::uint64_t{0});
  EXPECT_EQ(*parse("9007199254740993").as_unsigned(), 9007199254740993U);
  EXPECT_EQ(std::get<std::int64_t>(parse("-9223372036854775808").storage()),
            std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(std::get<double>(parse("-9223372036854775809").storage()), -9223372036854775808.0);
  EXPECT_EQ(std::get<double>(parse("18446744073709551616").storage()), 18446744073709551616.0);
  EXPECT_EQ(parse("18446744073709551616").as_unsigned(), nullptr);
}

// A tree parser read -1 as 2^64-1 and 2^64 as 0.
TEST(JsonTest, WhereUnsignedIntegersAreDueNothingElseIsANumber) {
  EXPECT_EQ(error_of("[0,18446744073709551615]", unsigned_only()), "none");
  for (const char* number : {"-1", "-0", "1.0", "1e3", "18446744073709551616", "1E-2"}) {
    EXPECT_EQ(error_of(number, unsigned_only()), at_byte("E-JSON-NUMBER", 0)) << number;
  }
}

TEST(JsonTest, NumbersThatNoDoubleHolds) {
  EXPECT_EQ(error_of("[1e999]"), at_byte("E-JSON-NUMBER", 1));
  EXPECT_EQ(error_of(std::string(400, '9')), at_byte("E-JSON-NUMBER", 0));
  EXPECT_EQ(std::get<double>(parse("1e-06").storage()), 1e-06);
}

TEST(JsonTest, NumbersOutsideTheGrammar) {
  for (const char* text : {"01", "-", "+1", "1.", ".5", "1e", "1e+", "0x10", "NaN", "Infinity",
                           "-Infinity", "--1", "1_0"}) {
    EXPECT_NE(error_of(text), "none") << text;
  }
}

TEST(JsonTest, WordsOfPythonAreNumbersWhereTheyAreAllowed) {
  JsonLimits limits;
  limits.non_finite_numbers = true;
  const JsonValue value = parse_json("[NaN, Infinity,-Infinity , 1]", "python", limits);
  ASSERT_EQ(value.as_array()->size(), 4U);
  EXPECT_TRUE(std::isnan(*(*value.as_array())[0].as_number()));
  EXPECT_EQ((*value.as_array())[1].as_number(), std::numeric_limits<double>::infinity());
  EXPECT_EQ((*value.as_array())[2].as_number(), -std::numeric_limits<double>::infinity());
  EXPECT_EQ((*value.as_array())[1].as_unsigned(), nullptr);
  EXPECT_EQ(error_of("{\"skipped\": {\"a\": [-Infinity]}}", limits), "none");
  for (const char* text : {"nan", "Nan", "Inf", "Infinit", "-Infinit", "+Infinity", "-NaN",
                           "InfinityX", "NaN1", "--Infinity", "1e999"}) {
    EXPECT_NE(error_of(text, limits), "none") << text;
  }
}

TEST(JsonTest, DuplicateKeysAreRefusedAtTheSecond) {
  EXPECT_EQ(error_of("{\"a\":1,\"a\":2}"), at_byte("E-JSON-DUPLICATE-KEY", 8));
  EXPECT_EQ(error_of("{\"x\":{\"a\":1,\"b\":[],\"a\":2}}"), at_byte("E-JSON-DUPLICATE-KEY", 20));
  EXPECT_EQ(error_of("{\"a\":1,\"\\u0061\":2}"), at_byte("E-JSON-DUPLICATE-KEY", 8));
  EXPECT_EQ(error_of("[{\"a\":1},{\"a\":1}]"), "none");
  std::string many = "{";
  for (int i = 0; i < 1000; ++i) {
    many += "\"k" + std::to_string(i) + "\":0,";
  }
  EXPECT_EQ(error_of(many + "\"k1000\":0}"), "none");
  EXPECT_EQ(error_of(many + "\"k7\":0}"), at_byte("E-JSON-DUPLICATE-KEY", many.size() + 1));
}

TEST(JsonTest, ByteOrderMarksAndWhatFollowsTheValue) {
  EXPECT_EQ(error_of("\xEF\xBB\xBF{}"), at_byte("E-JSON-BOM", 0));
  EXPECT_EQ(error_of("{} x"), at_byte("E-JSON-TRAILING", 3));
  EXPECT_EQ(error_of("{}{}"), at_byte("E-JSON-TRAILING", 2));
  EXPECT_EQ(error_of(std::string("{}\0", 3)), at_byte("E-JSON-TRAILING", 2));
  EXPECT_EQ(error_of("{} \n"), "none");
}

TEST(JsonTest, InvalidUtf8IsRefusedAtItsByte) {
  for (const char* bad :
       {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF",
        "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "\xE2\x82", "\xC3"}) {
    EXPECT_EQ(error_of(std::string("[\"ab") + bad + "\"]"), at_byte("E-JSON-UTF8", 4));
  }
  EXPECT_EQ(*parse("\"\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80\"").as_string(),
            "\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80");
}

TEST(JsonTest, EscapesAreDecoded) {
  EXPECT_EQ(*parse("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\\u00e9\\u20AC\\ud83d\\ude00\"").as_string(),
            "\"\\/\b\f\n\r\tA\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80");
  EXPECT_EQ(*parse("\"\\u0000\"").as_string(), std::string(1, '\0'));
  for (const char* bad : {"\\ud83d", "\\ude00", "\\ud83d\\u0041", "\\ud83dx", "\\ud83d\\n"}) {
    EXPECT_NE(error_of(quoted(bad)).find("E-JSON-"), std::string::npos) << bad;
  }
  for (const char* bad : {"\\x41", "\\u00g0", "\\u 41", "\\u+041", "\\", "\\u12"}) {
    EXPECT_NE(error_of(quoted(bad)), "none") << bad;
  }
}

TEST(JsonTest, SyntaxErrors) {
  for (const char* text :
       {"",      " ",       "{",     "}",         "[",       "]",        "[1",         "[1,",
        "[1,]",  "[,1]",    "[1 2]", "{,}",       "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "{\"a\" 1}",
        "{a:1}", "{'a':1}", "{1:1}", "tru",       "truee",   "nul",      "\"",         "\"\n\"",
        "/**/1", "1//",     "[1]]",  "{\"a\":1]", "[}"}) {
    EXPECT_NE(error_of(text), "none") << text;
  }
}

TEST(JsonTest, DepthIsBoundedBeforeItGrows) {
  JsonLimits limits;
  limits.depth = 3;
  EXPECT_EQ(error_of("[[[1]]]", limits), "none");
  EXPECT_EQ(error_of("[{\"a\":[[1]]}]", limits), at_byte("E-JSON-DEPTH", 7));
  EXPECT_EQ(error_of(std::string(1'000'000, '[')), at_byte("E-JSON-DEPTH", 16));
}

TEST(JsonTest, SizeAndNumberOfValuesAreBounded) {
  JsonLimits limits;
  limits.bytes = 10;
  EXPECT_EQ(error_of("[1,2,3,45]", limits), "none");
  EXPECT_EQ(error_of("[1,2,3,456]", limits), at_byte("E-JSON-SIZE", 0));
  limits.bytes = 100;
  limits.values = 4;
  EXPECT_EQ(error_of("[1,2,3]", limits), "none");
  EXPECT_EQ(error_of("[1,2,3,4]", limits), at_byte("E-JSON-VALUES", 7));
}

TEST(JsonTest, WhatExceedsTheTreeIsCheckedAndLeftOut) {
  JsonLimits limits;
  limits.kept_values = 4;
  bool cut = true;
  (void)parse_json(R"({"a":[1,2]})", "f", limits, 0, &cut);
  EXPECT_FALSE(cut);
  const JsonValue value = parse_json(R"({"a":[1,2,[3]],"b":{"c":4}})", "f", limits, 0, &cut);
  EXPECT_TRUE(cut);
  EXPECT_EQ(value.find("a")->as_array()->size(), 2U);
  EXPECT_EQ(value.find("b"), nullptr);
  EXPECT_EQ(error_of(R"({"a":[1,2,[3]],"b":{"c":4,"c":5}})", limits),
            at_byte("E-JSON-DUPLICATE-KEY", 27));
  EXPECT_EQ(error_of(R"({"a":[1,2,3],"b":[)", limits), at_byte("E-JSON-SYNTAX", 18));
}

TEST(JsonTest, NumbersTooSmallForADoubleAreZeroOrSubnormal) {
  EXPECT_EQ(std::get<double>(parse_json("1e-400", "f", {}).storage()), 0.0);
  EXPECT_EQ(std::get<double>(parse_json("-1e-99999", "f", {}).storage()), 0.0);
  EXPECT_EQ(std::get<double>(parse_json("4e-320", "f", {}).storage()), 4e-320);
  EXPECT_EQ(error_of("-1e400"), at_byte("E-JSON-NUMBER", 0));
}

TEST(JsonTest, OffsetsCountFromTheBase) {
  EXPECT_EQ(testing::error_of([] { parse_json("[x]", "f", {}, 100); }),
            at_byte("E-JSON-SYNTAX", 101));
}

TEST(JsonTest, CutShortAtEveryByte) {
  const std::string text = "{\"a\":[1,-2.5e3,true,null,\"\\u00e9\xC3\xA9\"],\"b\":{\"c\":{}}}";
  ASSERT_EQ(error_of(text), "none");
  for (std::size_t size = 0; size < text.size(); ++size) {
    EXPECT_NE(error_of(text.substr(0, size)), "none") << size;
  }
}

// What is accepted here is JSON by another parser's judgement too: every single-byte change of a
// text with all constructs.
TEST(JsonTest, AcceptsNothingThatAnotherParserRefuses) {
  const std::string text = "{\"a\":[1,-2.5e3,true,null,\"\\u00e9\\n\"],\"b\":{\"c\":[]},\"d\":0}";
  std::size_t accepted = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    for (int byte = 0; byte < 256; ++byte) {
      std::string changed = text;
      changed[at] = static_cast<char>(byte);
      if (error_of(changed) == "none") {
        ++accepted;
        EXPECT_TRUE(nlohmann::json::accept(changed)) << changed;
      }
    }
  }
  EXPECT_GT(accepted, 500U);
}

// Strings are passed over several bytes at a time: what ends a run may stand at any of them.
TEST(JsonScannerTest, AnyByteAtAnyPlaceOfAStringIsReadAsAnotherParserDoes) {
  for (std::size_t length = 0; length < 20; ++length) {
    for (std::size_t at = 0; at <= length; ++at) {
      for (const std::string middle : {"", "\\\"", "\\\\", "\\u00e9", "\xC3\xA9", "\xE2\x82\xAC",
                                       "\x7F", " ", "\x1F", "\x80", "\xFF"}) {
        std::string content(length, 'a');
        content.insert(at, middle);
        std::string text = json_test::quoted(content);
        const std::string copy = text;
        const bool is_valid = nlohmann::json::accept(copy);
        std::string read;
        const std::string error = testing::error_of([&] {
          JsonScanner scanner(text, "f", {});
          read = scanner.string();
          scanner.finish();
        });
        ASSERT_EQ(error == "none", is_valid) << copy << error;
        if (is_valid) {
          ASSERT_EQ(read, nlohmann::json::parse(copy).get<std::string>()) << copy;
        }
      }
    }
  }
}

TEST(JsonScannerTest, UnsignedIntegersAreThoseOfNumber) {
  for (const std::string number : {"0", "7", "10", "9999999999999999999", "10000000000000000000",
                                   "18446744073709551615", "18446744073709551616", "00", "01", "-1",
                                   "1.0", "1e2", "", "a", "1a", "00000000000000000001"}) {
    for (const std::string after : {"]", ",2]", " ]", "", "}"}) {
      std::string text = "[" + number + after;
      std::string copy = text;
      const auto read = [](std::string& from, bool fast) {
        std::uint64_t value = 0;
        JsonLimits limits = unsigned_only();
        const std::string error = testing::error_of([&] {
          JsonScanner scanner(from, "f", limits);
          scanner.enter_array();
          if (scanner.next_element()) {
            value = fast ? scanner.unsigned_integer() : std::get<std::uint64_t>(scanner.number());
            (void)scanner.next_element();
          }
        });
        return error + " " + std::to_string(value);
      };
      EXPECT_EQ(read(text, true), read(copy, false)) << number << after;
    }
  }
}

TEST(JsonScannerTest, TokensAreAskedForInOrderAndPositionsAbsolute) {
  std::string text = "{\"k\\u0065y\": [7, \"v\"], \"rest\": {\"x\": 1}}  ";
  JsonScanner scanner(text, "f", {}, 1000);
  scanner.enter_object();
  const auto key = scanner.next_key();
  EXPECT_EQ(*key, "key");
  EXPECT_EQ(scanner.offset_of(*key), 1002U);
  EXPECT_EQ(scanner.peek(), JsonKind::kArray);
  scanner.enter_array();
  EXPECT_TRUE(scanner.next_element());
  EXPECT_EQ(scanner.unsigned_integer(), 7U);
  EXPECT_TRUE(scanner.next_element());
  EXPECT_EQ(scanner.string(), "v");
  EXPECT_FALSE(scanner.next_element());
  EXPECT_EQ(*scanner.next_key(), "rest");
  scanner.skip_value();
  EXPECT_FALSE(scanner.next_key().has_value());
  scanner.finish(true);
}

TEST(JsonScannerTest, OnlySpacesMayFollowWhereSoAsked) {
  std::string text = "1 \n";
  JsonScanner scanner(text, "f", {});
  scanner.number();
  EXPECT_EQ(testing::error_of([&] { scanner.finish(true); }), at_byte("E-JSON-TRAILING", 2));
}

}  // namespace
}  // namespace vindex::json_test
