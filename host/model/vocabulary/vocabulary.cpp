// Owns finding entries by text and by spelling, the byte-level alphabet, and guesses.
#include "vocabulary.hpp"

#include "core/text/nearest_name.hpp"
#include "core/text/utf8.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

namespace vindex::model {

namespace {

constexpr std::string_view kWordStart = "\u2581";
constexpr std::string_view kContinued = "##";

std::string utf8_of(char32_t code) {
  // The alphabet ends at U+0143: two bytes at most.
  if (code < 0x80) {
    return {static_cast<char>(code)};
  }
  return {static_cast<char>(0xC0U | (code >> 6U)), static_cast<char>(0x80U | (code & 0x3FU))};
}

/// The character of each byte: itself where it is printable Latin-1, else the next from U+0100 on.
const std::array<char32_t, 256>& byte_alphabet() {
  static const std::array<char32_t, 256> alphabet = [] {
    std::array<char32_t, 256> characters = {};
    char32_t next = 0x100;
    for (char32_t byte = 0; byte < 256; ++byte) {
      const bool is_shown = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) ||
                            (byte >= 0xAE && byte <= 0xFF);
      characters.at(byte) = is_shown ? byte : next++;
    }
    return characters;
  }();
  return alphabet;
}

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  while (!text.empty()) {
    const std::size_t at = std::min(text.find(from), text.size());
    out += text.substr(0, at);
    text.remove_prefix(at);
    if (!text.empty()) {
      out += to;
      text.remove_prefix(from.size());
    }
  }
  return out;
}

}  // namespace

std::string to_byte_level(std::string_view bytes) {
  std::string out;
  for (const char byte : bytes) {
    out += utf8_of(byte_alphabet().at(static_cast<unsigned char>(byte)));
  }
  return out;
}

std::optional<std::string> from_byte_level(std::string_view text) {
  static const std::vector<std::pair<char32_t, char>> bytes = [] {
    std::vector<std::pair<char32_t, char>> pairs;
    for (std::size_t byte = 0; byte < 256; ++byte) {
      pairs.emplace_back(byte_alphabet().at(byte), static_cast<char>(byte));
    }
    std::sort(pairs.begin(), pairs.end());
    return pairs;
  }();
  std::string out;
  while (!text.empty()) {
    const Utf8Character character = utf8_character(text);
    const auto found = std::lower_bound(
        bytes.begin(), bytes.end(), character.code,
        [](const std::pair<char32_t, char>& pair, char32_t code) { return pair.first < code; });
    if (character.bytes == 0 || found == bytes.end() || found->first != character.code) {
      return std::nullopt;
    }
    out += found->second;
    text.remove_prefix(character.bytes);
  }
  return out;
}

Vocabulary::Vocabulary(std::string source, Spelling spelling,
                       std::vector<std::optional<std::string>> entries)
    : source_(std::move(source)), spelling_(spelling), entries_(std::move(entries)) {
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i]) {
      by_text_.push_back(static_cast<std::int64_t>(i));
    }
  }
  std::stable_sort(by_text_.begin(), by_text_.end(), [this](std::int64_t a, std::int64_t b) {
    return *entries_[static_cast<std::size_t>(a)] < *entries_[static_cast<std::size_t>(b)];
  });
}

std::optional<std::string_view> Vocabulary::entry(std::int64_t number) const {
  if (number < 0 || number >= size() || !entries_[static_cast<std::size_t>(number)]) {
    return std::nullopt;
  }
  return *entries_[static_cast<std::size_t>(number)];
}

std::string Vocabulary::text(std::int64_t number) const {
  const auto spelt = entry(number);
  if (!spelt) {
    return "";
  }
  switch (spelling_) {
    case Spelling::kSpaceMark:
      return replaced(*spelt, kWordStart, " ");
    case Spelling::kByteLevel:
      // Added tokens are spelt as they are.
      return from_byte_level(*spelt).value_or(std::string(*spelt));
    default:
      return std::string(*spelt);
  }
}

void Vocabulary::add_spelt(std::string_view spelt, std::vector<std::int64_t>& numbers) const {
  const auto less = [this](std::int64_t number, std::string_view wanted) {
    return *entries_[static_cast<std::size_t>(number)] < wanted;
  };
  for (auto at = std::lower_bound(by_text_.begin(), by_text_.end(), spelt, less);
       at != by_text_.end() && *entries_[static_cast<std::size_t>(*at)] == spelt; ++at) {
    numbers.push_back(*at);
  }
}

std::vector<std::int64_t> Vocabulary::find(std::string_view text) const {
  std::vector<std::int64_t> numbers;
  const bool is_spaced = text.starts_with(' ');
  switch (spelling_) {
    case Spelling::kSpaceMark:
      add_spelt(replaced(text, " ", kWordStart), numbers);
      if (!is_spaced && !text.starts_with(kWordStart)) {
        add_spelt(std::string(kWordStart) + replaced(text, " ", kWordStart), numbers);
      }
      break;
    case Spelling::kByteLevel:
      add_spelt(to_byte_level(text), numbers);
      if (!is_spaced) {
        add_spelt(to_byte_level(" " + std::string(text)), numbers);
      }
      break;
    case Spelling::kContinuation:
      add_spelt(text, numbers);
      if (!text.starts_with(kContinued)) {
        add_spelt(std::string(kContinued) + std::string(text), numbers);
      }
      break;
    case Spelling::kPlain:
      break;
  }
  if (numbers.empty()) {
    add_spelt(text, numbers);
  }
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return numbers;
}

std::string Vocabulary::guess(std::string_view text) const {
  std::vector<std::string> names;
  names.reserve(by_text_.size());
  for (const std::int64_t number : by_text_) {
    std::string name = this->text(number);
    if (const std::size_t first = name.find_first_not_of(' '); first != std::string::npos) {
      names.push_back(name.substr(first));
    }
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return did_you_mean(text, names);
}

}  // namespace vindex::model
