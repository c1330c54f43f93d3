// Owns strict reading of JSON from untrusted files into a small value tree: no duplicate keys, no
// byte-order mark, strict UTF-8, bounded depth and size, exact integers. The text is read by
// json_scanner.hpp, which large lists (headers, indexes) use without a tree. (nlohmann's DOM
// accepts duplicate keys and turns -1 into 2^64-1, its lexer copies every token; see
// docs/decisions/input.md.)
#pragma once

#include "json_scanner.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace vindex {

/// A JSON value. Objects keep file order.
class JsonValue {
 public:
  using Array = std::vector<JsonValue>;
  using Object = std::vector<std::pair<std::string, JsonValue>>;
  using Storage = std::variant<std::nullptr_t, bool, std::uint64_t, std::int64_t, double,
                               std::string, Array, Object>;

  JsonValue() = default;
  explicit JsonValue(Storage storage) : storage_(std::move(storage)) {}

  bool is_null() const { return std::holds_alternative<std::nullptr_t>(storage_); }
  const bool* as_bool() const { return std::get_if<bool>(&storage_); }
  /// Non-negative integers only.
  const std::uint64_t* as_unsigned() const { return std::get_if<std::uint64_t>(&storage_); }
  /// Any number, rounded to a double.
  std::optional<double> as_number() const;
  const std::string* as_string() const { return std::get_if<std::string>(&storage_); }
  const Array* as_array() const { return std::get_if<Array>(&storage_); }
  const Object* as_object() const { return std::get_if<Object>(&storage_); }
  const Storage& storage() const { return storage_; }

  /// Member `key` of an object, or null where this is no object or has no such member.
  const JsonValue* find(std::string_view key) const;

 private:
  Storage storage_ = nullptr;
};

/// The tree of the value that comes next, for documents of which only small parts are needed as
/// trees. Errors: the scanner's; FormatError E-JSON-LIMIT for more than `most` values in it.
JsonValue read_json_value(JsonScanner& scanner, std::size_t most);

/// Parses `text` whole (only white space may follow the value). `where` names the file in messages,
/// `base_offset` is added to byte positions. What exceeds `limits.kept_values` is read as strictly
/// and left out of the tree; `*cut` says so. Errors: FormatError E-JSON-* naming the byte.
JsonValue parse_json(std::string_view text, const std::string& where, const JsonLimits& limits,
                     std::uint64_t base_offset = 0, bool* cut = nullptr);

}  // namespace vindex
