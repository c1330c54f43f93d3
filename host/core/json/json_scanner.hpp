// Owns the strict reading of JSON text, token by token, without building anything: the caller asks
// for what it expects next. It refuses what lenient parsers let pass: duplicate keys (in every
// object), byte-order marks, invalid UTF-8, lone surrogates, control characters, NaN, trailing
// commas, anything after the value. Memory: the text itself, which escapes are decoded into, and
// 32 bytes per key of the objects that are open. A tree parser needs five times the text; a
// hostile 100 MB header must be refused in less.
#pragma once

#include "json_cursor.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace vindex {

struct JsonLimits {
  std::size_t depth = 16;
  std::size_t bytes = 16U << 20U;
  std::size_t values = std::numeric_limits<std::size_t>::max();  ///< more are refused
  std::size_t kept_values = 4'000'000;  ///< parse_json(): the tree holds these, the rest is null
  /// NaN, Infinity and -Infinity are numbers, as Python's json writes them.
  bool non_finite_numbers = false;
  bool unsigned_integers_only = false;  ///< refuse negative, fractional and exponent numbers
};

/// Kinds of value, known from the first byte.
enum class JsonKind { kNull, kBool, kNumber, kString, kArray, kObject };

class JsonScanner : public JsonCursor {
 public:
  using Number = std::variant<std::uint64_t, std::int64_t, double>;

  /// `text` is overwritten where strings hold escapes; the views handed out point into it. `where`
  /// and `base_offset` name file and position in messages. Every member throws FormatError
  /// E-JSON-*, naming the byte, where the text is not what it asks for.
  JsonScanner(std::span<char> text, std::string where, const JsonLimits& limits,
              std::uint64_t base_offset = 0);

  /// What comes next, at the place of a value.
  JsonKind peek();

  void enter_object();
  /// The next key, its colon consumed: the caller reads the value. Nothing at the object's end.
  std::optional<std::string_view> next_key();
  void enter_array();
  /// True where an element comes, which the caller reads; false at the array's end.
  bool next_element();

  std::string_view string();
  /// Integers keep every bit: unsigned where not negative, else signed; beyond 64 bits or with a
  /// fraction or exponent a double, which must be finite but for the words that
  /// `non_finite_numbers` allows. With `unsigned_integers_only` all but the first are refused.
  Number number();
  std::uint64_t unsigned_integer();
  bool boolean();
  void null();
  /// Reads over a value of any kind, as strictly as if it were needed.
  void skip_value();

  /// Checks that nothing but white space follows (`spaces_only`: nothing but 0x20).
  void finish(bool spaces_only = false);

 private:
  struct Frame {
    bool object;
    bool first;
    std::size_t keys_begin;
  };

  void begin_value();
  void enter(bool object);
  void leave();
  void literal(std::string_view word);
  /// Reads over one of the words that `non_finite_numbers` allows.
  std::optional<double> non_finite_number();

  JsonLimits limits_;
  std::size_t values_ = 0;
  std::vector<Frame> frames_;
  std::vector<std::string_view> keys_;
};

}  // namespace vindex
