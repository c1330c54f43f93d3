// Owns JSON that is written: a tree of values built like a literal and turned into text. Reading is
// json.hpp's.
//
//   Json out = {{"schema", "vindex-plan/1"}, {"matrices", 181}, {"seconds", nullptr}};
//   out["rows"] = Json::array();
//   std::string text = out.dump(2);
//
// Everything but the choice of a type lies in json_document.cpp, the only source that compiles a
// JSON library: its templates in every source that reports something made a fifth of a first build.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vindex {

class JsonValue;

/// null, a boolean, a number, text, a list, or an object that keeps the order of its members.
/// Copies share what they hold until one of them is changed.
class Json {
 public:
  Json() noexcept;
  Json(std::nullptr_t) noexcept;
  Json(std::same_as<bool> auto value) : Json(of_bool(value)) {}
  template <std::integral Integer>
  requires(!std::same_as<Integer, bool>) Json(Integer value) : Json(of_integer(value)) {}
  Json(double value);  ///< null where it is NaN or infinite, which JSON has not
  Json(float value);
  Json(const char* text);
  Json(std::string_view text);
  Json(const std::string& text);
  template <typename Value>
  Json(const std::vector<Value>& values) : Json(array()) {
    for (const auto& value : values) {
      push_back(Json(static_cast<const Value&>(value)));
    }
  }
  template <typename Value>
  Json(const std::map<std::string, Value>& members) : Json(object()) {
    for (const auto& [key, value] : members) {
      (*this)[key] = Json(value);
    }
  }
  /// An object where every element is a list of two that begins with text; a list otherwise.
  Json(std::initializer_list<Json> elements);

  Json(const Json& other) noexcept;
  Json(Json&& other) noexcept;
  Json& operator=(const Json& other) noexcept;
  Json& operator=(Json&& other) noexcept;
  ~Json();

  static Json array();
  static Json object();
  /// What was read, to be written again.
  static Json of(const JsonValue& value);
  /// A list, whatever its elements look like.
  static Json array(std::initializer_list<Json> elements);
  /// A list of make(value) for every one of `values`.
  template <typename Values, typename Make>
  static Json list(const Values& values, const Make& make) {
    Json out = array();
    for (const auto& value : values) {
      out.push_back(make(value));
    }
    return out;
  }
  /// Null where there is nothing.
  static Json given(const std::string& text) { return text.empty() ? Json() : Json(text); }
  template <typename Value>
  static Json given(const std::optional<Value>& value) {
    return value ? Json(*value) : Json();
  }

  bool is_null() const;
  /// Of a list or an object; 0 otherwise.
  std::size_t size() const;
  bool empty() const { return size() == 0; }

  /// The member `key` of an object, added as null where it is missing; null becomes an object.
  Json& operator[](std::string_view key);
  Json& operator[](const char* key) { return (*this)[std::string_view(key)]; }
  /// The last element of a list that has one.
  Json& back();
  /// The elements of a list.
  std::vector<Json>& elements();
  /// Null becomes a list.
  void push_back(Json value);
  /// Sets the members of `other`, an object; those that are there already keep their place.
  void update(const Json& other);

  /// The text: `indent` spaces a level, everything in one line where it is negative. Text that is
  /// no UTF-8 has U+FFFD in place of what is wrong. Doubles have the fewest digits that read back
  /// the same.
  std::string dump(int indent = -1) const;

 private:
  struct Node;
  explicit Json(std::shared_ptr<Node> node) noexcept;
  static Json of_bool(bool value);
  static Json of_signed(std::int64_t value);
  static Json of_unsigned(std::uint64_t value);
  template <std::integral Integer>
  static Json of_integer(Integer value) {
    if constexpr (std::signed_integral<Integer>) {
      return of_signed(value);
    } else {
      return of_unsigned(value);
    }
  }
  /// The node, of nobody else.
  Node& own();

  std::shared_ptr<Node> node_;
};

}  // namespace vindex
