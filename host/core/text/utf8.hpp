// Owns what well-formed UTF-8 is: table 3-7 of the Unicode standard (no overlong forms, no
// surrogates, nothing beyond U+10FFFF).
#pragma once

#include <cstddef>
#include <string_view>

namespace vindex {

/// A character and the bytes it takes; 0 bytes: none begins there.
struct Utf8Character {
  std::size_t bytes = 0;
  char32_t code = 0;
};

/// The character at the beginning of `text`.
constexpr Utf8Character utf8_character(std::string_view text) {
  const auto at = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const unsigned int lead = at(0);
  if (lead < 0x80) {
    return {text.empty() ? std::size_t{0} : std::size_t{1}, lead};
  }
  const std::size_t bytes = lead >= 0xF0 ? 4 : (lead >= 0xE0 ? 3 : 2);
  // What may follow some first bytes is less than 80..BF.
  const unsigned int low = lead == 0xE0 ? 0xA0 : (lead == 0xF0 ? 0x90 : 0x80);
  const unsigned int high = lead == 0xED ? 0x9F : (lead == 0xF4 ? 0x8F : 0xBF);
  if (lead < 0xC2 || lead > 0xF4 || at(1) < low || at(1) > high) {
    return {};
  }
  char32_t code = lead & (0xFFU >> (bytes + 1));
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((at(i) & 0xC0U) != 0x80U) {
      return {};
    }
    code = (code << 6U) | (at(i) & 0x3FU);
  }
  return {bytes, code};
}

/// Whether all of `text` is UTF-8.
constexpr bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t bytes = utf8_character(text).bytes;
    if (bytes == 0) {
      return false;
    }
    text.remove_prefix(bytes);
  }
  return true;
}

}  // namespace vindex
