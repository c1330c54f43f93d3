// Owns reading members of an untrusted JSON document: what is missing or of another kind is an
// error that names its place in the document.
#pragma once

#include "core/json/json.hpp"
#include <vindex/error.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vindex::organ {

/// What errors of a document say: their id, and the file.
struct JsonDocument {
  const char* error_id;
  std::string where;  ///< printable()
};

/// A value of a document and the place that it has there. Errors of every member: FormatError with
/// the document's id.
class JsonNode {
 public:
  /// All must outlive this.
  JsonNode(const JsonValue* value, std::string place, const JsonDocument& document)
      : value_(value), place_(std::move(place)), document_(&document) {}

  [[noreturn]] void fail(const std::string& why) const {
    throw FormatError(document_->error_id, document_->where, place_ + ": " + why);
  }
  /// There, and not null.
  bool is_given() const { return value_ != nullptr && !value_->is_null(); }
  bool is_list() const { return value_ != nullptr && value_->as_array() != nullptr; }
  const JsonValue& json() const { return *value_; }
  JsonNode operator[](std::string_view member) const {
    std::string place;  // appended to, not formatted: of every member of every tensor
    place.reserve(place_.size() + 1 + member.size());
    place.append(place_).append(place_.empty() ? "" : ".").append(member);
    return {value_ == nullptr ? nullptr : value_->find(member), std::move(place), *document_};
  }
  /// Has the member, be it null.
  bool has(std::string_view member) const {
    return value_ != nullptr && value_->find(member) != nullptr;
  }
  /// Refuses members that are none of `known`: one that is misspelt would ask for something else
  /// without a word.
  void require_known(std::span<const std::string_view> known) const;
  std::uint64_t number() const { return *expected(as_unsigned(), "a whole number from 0 on"); }
  const std::string& text() const {
    return *expected(value_ == nullptr ? nullptr : value_->as_string(), "a string");
  }
  bool flag() const {
    return *expected(value_ == nullptr ? nullptr : value_->as_bool(), "true or false");
  }
  std::vector<JsonNode> list() const {
    const auto* array = expected(value_ == nullptr ? nullptr : value_->as_array(), "a list");
    std::vector<JsonNode> nodes;
    nodes.reserve(array->size());
    for (std::size_t i = 0; i < array->size(); ++i) {
      nodes.emplace_back(&(*array)[i], place_ + "[" + std::to_string(i) + "]", *document_);
    }
    return nodes;
  }
  /// Members in the order of the file.
  std::vector<std::pair<std::string, JsonNode>> members() const {
    const auto* object = expected(value_ == nullptr ? nullptr : value_->as_object(), "an object");
    std::vector<std::pair<std::string, JsonNode>> nodes;
    for (const auto& [name, value] : *object) {
      nodes.emplace_back(name,
                         JsonNode(&value, place_.empty() ? name : place_ + "." + name, *document_));
    }
    return nodes;
  }

 private:
  const std::uint64_t* as_unsigned() const {
    return value_ == nullptr ? nullptr : value_->as_unsigned();
  }
  template <typename Value>
  const Value* expected(const Value* value, const char* what) const {
    if (value == nullptr) {
      fail("expected " + std::string(what));
    }
    return value;
  }

  const JsonValue* value_;
  std::string place_;
  const JsonDocument* document_;
};

/// The text of the document at `path`, at most `max_bytes` long. Errors: FormatError with
/// `document`'s id where it is longer.
std::string read_json_text(const std::string& path, std::uint64_t max_bytes,
                           const JsonDocument& document);

/// The document at `path`, at most `max_bytes` long. Errors: FormatError with `document`'s id
/// where it is longer, E-JSON-* where it is none.
JsonValue read_json_file(const std::string& path, std::uint64_t max_bytes, std::size_t max_values,
                         const JsonDocument& document);

}  // namespace vindex::organ
