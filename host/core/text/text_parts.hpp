// Owns taking text apart: at a character, and as one number.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>
#include <string_view>
#include <system_error>
#include <vector>

namespace vindex {

/// What stands before, between and behind the occurrences of `at`, empty parts too.
inline std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = text.find(at);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) {
      return parts;
    }
    text.remove_prefix(end + 1);
  }
}

/// Whether `word` is one of `list`, words with spaces between.
inline bool has_word(std::string_view list, std::string_view word) {
  const std::vector<std::string_view> words = split(list, ' ');
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// All of `text` as a number that `Number` holds, as std::from_chars() reads it: decimal or to
/// `base`, no white space, no plus sign. Nothing for every other text.
template <typename Number>
std::optional<Number> whole_number(std::string_view text, auto... base) {
  Number number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number, base...);
  return error == std::errc() && rest == end ? std::optional(number) : std::nullopt;
}

}  // namespace vindex
