// Owns the strict reading of JSON text, token by token, without building anything: the caller asks
// for what it expects next. It refuses what lenient parsers let pass: duplicate keys (in every
// object), byte-order marks, invalid UTF-8, lone surrogates, control characters, NaN, trailing
// commas, anything after the value. Memory: the text itself, which escapes are decoded into, and
// 32 bytes per key of the objects that are open. A tree parser needs five times the text; a
// hostile 100 MB header must be refused in less.
#pragma once

#include "json.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace vindex {

/// Kinds of value, known from the first byte.
enum class JsonKind { kNull, kBool, kNumber, kString, kArray, kObject };

class JsonScanner {
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

  /// Absolute position of the last token (for strings: of its first character).
  std::uint64_t token_offset() const { return base_offset_ + token_; }
  /// Absolute position of a view that this scanner handed out.
  std::uint64_t offset_of(std::string_view token) const;
  [[noreturn]] void fail(const char* id, const std::string& message) const;
  [[noreturn]] void fail_at(std::uint64_t offset, const char* id, const std::string& message) const;

 private:
  struct Frame {
    bool object;
    bool first;
    std::size_t keys_begin;
  };

  void skip_space();
  void begin_value();
  void expect(char wanted, const char* what);
  void enter(bool object);
  void leave();
  std::string_view scan_string();
  std::size_t decode_escape(std::size_t out);
  std::uint32_t four_hex_digits();
  std::size_t check_utf8();
  void literal(std::string_view word);
  /// Reads over one of the words that `non_finite_numbers` allows.
  std::optional<double> non_finite_number();
  char here() const { return position_ < text_.size() ? text_[position_] : '\0'; }

  std::span<char> text_;
  std::string where_;
  JsonLimits limits_;
  std::uint64_t base_offset_;
  std::size_t position_ = 0;
  std::size_t token_ = 0;
  std::size_t values_ = 0;
  std::vector<Frame> frames_;
  std::vector<std::string_view> keys_;
};

/// The tree of the value that comes next, for documents of which only small parts are needed as
/// trees. Errors: the scanner's; FormatError E-JSON-LIMIT for more than `most` values in it.
JsonValue read_json_value(JsonScanner& scanner, std::size_t most);

}  // namespace vindex
