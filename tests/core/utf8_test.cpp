// UTF-8 by its definition: every code point, and every way to write one wrongly.
#include "core/text/utf8.hpp"

#include <gtest/gtest.h>

#include <string>

namespace vindex::utf8_test {
namespace {

/// The bytes of `code` by the definition, surrogates and beyond included.
std::string encoded(char32_t code) {
  const auto byte = [](char32_t bits) { return static_cast<char>(bits); };
  if (code < 0x80) {
    return {byte(code)};
  }
  if (code < 0x800) {
    return {byte(0xC0 | code >> 6), byte(0x80 | (code & 0x3F))};
  }
  if (code < 0x10000) {
    return {byte(0xE0 | code >> 12), byte(0x80 | (code >> 6 & 0x3F)), byte(0x80 | (code & 0x3F))};
  }
  return {byte(0xF0 | code >> 18), byte(0x80 | (code >> 12 & 0x3F)),
          byte(0x80 | (code >> 6 & 0x3F)), byte(0x80 | (code & 0x3F))};
}

TEST(Utf8, EveryCodePointAndNoSurrogate) {
  for (char32_t code = 0; code < 0x120000; ++code) {
    const std::string text = encoded(code) + "x";
    const Utf8Character got = utf8_character(text);
    const bool valid = code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF);
    ASSERT_EQ(got.bytes, valid ? text.size() - 1 : 0) << text;
    if (valid) {
      ASSERT_TRUE(got.code == code) << text;
    }
  }
}

TEST(Utf8, OverlongCutAndLoneBytesAreNone) {
  for (const char* text :
       {"\xC0\x80", "\xC1\xBF", "\xE0\x80\x80", "\xE0\x9F\xBF", "\xF0\x8F\xBF\xBF",
        "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "\x80", "\xBF", "\xC3", "\xE2\x82",
        "\xF0\x9F\x98", "\xC3\x28", "\xE2\x28\xA1"}) {
    EXPECT_EQ(utf8_character(text).bytes, 0U) << text;
    EXPECT_FALSE(is_utf8(std::string("a") + text));
  }
  EXPECT_EQ(utf8_character("").bytes, 0U);
  EXPECT_TRUE(is_utf8(""));
  EXPECT_TRUE(is_utf8("a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80"));
  EXPECT_TRUE(is_utf8(std::string_view("a\0b", 3)));
}

}  // namespace
}  // namespace vindex::utf8_test
