// Owns the structure of JSON text: values, what they are nested in, numbers.
#include "json_scanner.hpp"

#include "core/text/name_index.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <utility>

namespace vindex {

namespace {
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
/// Up to this many keys comparing each with each is cheaper than an index.
constexpr std::size_t kFewKeys = 8;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Positions of two equal keys, or nothing.
std::optional<std::pair<std::size_t, std::size_t>> find_duplicate(
    std::span<const std::string_view> keys) {
  if (keys.size() > kFewKeys) {
    return NameIndex(keys).duplicate();
  }
  for (std::size_t later = 1; later < keys.size(); ++later) {
    for (std::size_t first = 0; first < later; ++first) {
      if (keys[first] == keys[later]) {
        return std::pair(first, later);
      }
    }
  }
  return std::nullopt;
}
}  // namespace

JsonScanner::JsonScanner(std::span<char> text, std::string where, const JsonLimits& limits,
                         std::uint64_t base_offset)
    : JsonCursor(text, std::move(where), base_offset), limits_(limits) {
  if (text_.size() > limits_.bytes) {
    fail("E-JSON-SIZE", fmt::format("more than the {} bytes of JSON allowed here", limits_.bytes));
  }
  if (std::string_view(text_.data(), text_.size()).starts_with(kByteOrderMark)) {
    fail("E-JSON-BOM", "a byte-order mark precedes the JSON text");
  }
}

void JsonScanner::begin_value() {
  skip_space();
  token_ = position_;
  if (++values_ > limits_.values) {
    fail("E-JSON-VALUES", fmt::format("more than {} values", limits_.values));
  }
}

JsonKind JsonScanner::peek() {
  skip_space();
  token_ = position_;
  if (position_ == text_.size()) {
    fail("E-JSON-SYNTAX", "the JSON text ends where a value is expected");
  }
  const char c = here();
  switch (c) {
    case '{':
      return JsonKind::kObject;
    case '[':
      return JsonKind::kArray;
    case '"':
      return JsonKind::kString;
    case 't':
    case 'f':
      return JsonKind::kBool;
    case 'n':
      return JsonKind::kNull;
    default:
      if (c == '-' || is_digit(c) || (limits_.non_finite_numbers && (c == 'N' || c == 'I'))) {
        return JsonKind::kNumber;
      }
      fail("E-JSON-SYNTAX",
           fmt::format("'{}' where a JSON value is expected", printable(std::string(1, c))));
  }
}

void JsonScanner::enter(bool object) {
  begin_value();
  expect(object ? '{' : '[', object ? "an object ('{')" : "an array ('[')");
  if (frames_.size() >= limits_.depth) {
    fail("E-JSON-DEPTH", fmt::format("more than {} values nested in each other", limits_.depth));
  }
  frames_.push_back({object, true, keys_.size()});
}

void JsonScanner::enter_object() { enter(true); }
void JsonScanner::enter_array() { enter(false); }

void JsonScanner::leave() {
  ++position_;
  const std::size_t begin = frames_.back().keys_begin;
  const std::span<const std::string_view> keys = std::span(keys_).subspan(begin);
  if (const auto twice = find_duplicate(keys)) {
    const std::string_view key = keys[twice->second];
    fail_at(offset_of(key), "E-JSON-DUPLICATE-KEY",
            fmt::format("key \"{}\" occurs twice in one object (first at byte {})",
                        printable(std::string(key.substr(0, 200))), offset_of(keys[twice->first])));
  }
  keys_.resize(begin);
  frames_.pop_back();
}

std::optional<std::string_view> JsonScanner::next_key() {
  expects(!frames_.empty() && frames_.back().object, "next_key() outside an object");
  skip_space();
  token_ = position_;
  if (here() == '}') {
    leave();
    return std::nullopt;
  }
  if (!std::exchange(frames_.back().first, false)) {
    expect(',', "',' or '}'");
    skip_space();
  }
  const std::string_view key = scan_string();
  keys_.push_back(key);
  skip_space();
  expect(':', "':'");
  token_ = static_cast<std::size_t>(key.data() - text_.data());
  return key;
}

bool JsonScanner::next_element() {
  expects(!frames_.empty() && !frames_.back().object, "next_element() outside an array");
  skip_space();
  token_ = position_;
  if (here() == ']' && frames_.back().first) {
    leave();
    return false;
  }
  if (!std::exchange(frames_.back().first, false)) {
    if (here() == ']') {
      leave();
      return false;
    }
    expect(',', "',' or ']'");
  }
  return true;
}

std::string_view JsonScanner::string() {
  begin_value();
  return scan_string();
}

std::optional<double> JsonScanner::non_finite_number() {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr std::pair<std::string_view, double> kWords[] = {
      {"NaN", std::numeric_limits<double>::quiet_NaN()},
      {"Infinity", kInfinity},
      {"-Infinity", -kInfinity}};
  const std::string_view rest(text_.data() + position_, text_.size() - position_);
  for (const auto& [word, value] : kWords) {
    if (rest.starts_with(word)) {
      position_ += word.size();
      return value;
    }
  }
  return std::nullopt;
}

JsonScanner::Number JsonScanner::number() {
  begin_value();
  if (limits_.non_finite_numbers) {
    if (const auto value = non_finite_number()) {
      return *value;
    }
  }
  const bool negative = here() == '-';
  position_ += negative ? 1 : 0;
  if (!is_digit(here())) {
    fail("E-JSON-SYNTAX", "a number is expected here");
  }
  std::uint64_t magnitude = 0;
  bool fits = true;
  const bool leading_zero = here() == '0';
  const std::size_t digits = position_;
  while (is_digit(here())) {
    const auto digit = static_cast<std::uint64_t>(text_[position_++] - '0');
    fits = fits && !__builtin_mul_overflow(magnitude, 10U, &magnitude) &&
           !__builtin_add_overflow(magnitude, digit, &magnitude);
  }
  if (leading_zero && position_ > digits + 1) {
    fail("E-JSON-SYNTAX", "a number with a leading zero");
  }
  bool integer = true;
  const auto some_digits = [&] {
    if (!is_digit(here())) {
      fail("E-JSON-SYNTAX", "a number without digits where they are expected");
    }
    while (is_digit(here())) {
      ++position_;
    }
  };
  if (here() == '.') {
    integer = false;
    ++position_;
    some_digits();
  }
  if (here() == 'e' || here() == 'E') {
    integer = false;
    ++position_;
    if (here() == '+' || here() == '-') {
      ++position_;
    }
    some_digits();
  }
  if (limits_.unsigned_integers_only && (negative || !integer || !fits)) {
    fail("E-JSON-NUMBER", "only integers from 0 to 2^64-1 are allowed here");
  }
  if (integer && fits && !negative) {
    return magnitude;
  }
  constexpr auto kLargest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (integer && fits && magnitude <= kLargest + 1) {
    return static_cast<std::int64_t>(0 - magnitude);
  }
  double value = 0.0;
  const char* first = text_.data() + token_;
  const char* last = text_.data() + position_;
  const auto [stop, error] = std::from_chars(first, last, value);
  if (error == std::errc::result_out_of_range) {
    // Too large or too small, which from_chars() leaves open; too small is finite.
    value = std::strtod(std::string(first, last).c_str(), nullptr);
  }
  if (stop != last || !std::isfinite(value)) {
    fail("E-JSON-NUMBER", "a number that no double holds");
  }
  return value;
}

std::uint64_t JsonScanner::unsigned_integer() {
  // Nearly all are a few digits and nothing else; number() judges the others.
  constexpr std::size_t kMaxDigits = 19;  // fit 64 bits, whichever they are
  skip_space();
  std::uint64_t plain = 0;
  std::size_t end = position_;
  while (end < text_.size() && end - position_ < kMaxDigits && is_digit(text_[end])) {
    plain = plain * 10 + static_cast<std::uint64_t>(text_[end++] - '0');
  }
  if (end > position_ && end < text_.size() && (text_[end] == ',' || text_[end] == ']') &&
      (text_[position_] != '0' || end == position_ + 1)) {
    begin_value();
    position_ = end;
    return plain;
  }
  const Number value = number();
  const auto* integer = std::get_if<std::uint64_t>(&value);
  if (integer == nullptr) {
    fail("E-JSON-NUMBER", "only integers from 0 to 2^64-1 are allowed here");
  }
  return *integer;
}

void JsonScanner::literal(std::string_view word) {
  const std::string_view rest(text_.data() + position_, text_.size() - position_);
  if (!rest.starts_with(word)) {
    fail("E-JSON-SYNTAX", fmt::format("'{}' is due here", word));
  }
  position_ += word.size();
}

bool JsonScanner::boolean() {
  begin_value();
  const bool value = here() == 't';
  literal(value ? "true" : "false");
  return value;
}

void JsonScanner::null() {
  begin_value();
  literal("null");
}

// The recursion is as deep as JsonLimits::depth, which enter() checks first.
void JsonScanner::skip_value() {  // NOLINT(misc-no-recursion)
  switch (peek()) {
    case JsonKind::kNull:
      return null();
    case JsonKind::kBool:
      boolean();
      return;
    case JsonKind::kNumber:
      number();
      return;
    case JsonKind::kString:
      string();
      return;
    case JsonKind::kArray:
      enter_array();
      while (next_element()) {
        skip_value();
      }
      return;
    case JsonKind::kObject:
      enter_object();
      while (next_key()) {
        skip_value();
      }
      return;
  }
}

void JsonScanner::finish(bool spaces_only) {
  if (spaces_only) {
    while (here() == ' ') {
      ++position_;
    }
  } else {
    skip_space();
  }
  if (position_ != text_.size()) {
    token_ = position_;
    fail("E-JSON-TRAILING", spaces_only ? "only spaces may follow the JSON value"
                                        : "something follows the JSON value");
  }
}

}  // namespace vindex
