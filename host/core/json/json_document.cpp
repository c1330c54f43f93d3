// Owns the tree behind Json on a JSON library's own values; the only source that includes that
// library.
#include "json_document.hpp"

#include "json.hpp"

#include <vindex/error.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

namespace vindex {

struct Json::Node {
  using Array = std::vector<Json>;
  using Object = std::vector<std::pair<std::string, Json>>;
  std::variant<bool, std::int64_t, std::uint64_t, double, std::string, Array, Object> value;

  static nlohmann::ordered_json written(const Json& json) {
    if (json.node_ == nullptr) {
      return nullptr;
    }
    if (const auto* array = std::get_if<Array>(&json.node_->value)) {
      nlohmann::ordered_json out = nlohmann::ordered_json::array();
      for (const Json& element : *array) {
        out.push_back(written(element));
      }
      return out;
    }
    if (const auto* object = std::get_if<Object>(&json.node_->value)) {
      nlohmann::ordered_json out = nlohmann::ordered_json::object();
      auto& members = out.get_ref<nlohmann::ordered_json::object_t&>();
      members.reserve(object->size());
      for (const auto& [key, member] : *object) {
        // At the end at once: keys are unique, and the library would look for each among all.
        members.push_back({key, written(member)});
      }
      return out;
    }
    return std::visit(
        [](const auto& scalar) -> nlohmann::ordered_json {
          if constexpr (std::is_same_v<std::decay_t<decltype(scalar)>, Array> ||
                        std::is_same_v<std::decay_t<decltype(scalar)>, Object>) {
            return nullptr;
          } else {
            return scalar;
          }
        },
        json.node_->value);
  }

  template <typename Value>
  static std::shared_ptr<Node> of(Value value) {
    return std::make_shared<Node>(Node{std::move(value)});
  }

  /// The elements of a list that reads as a member of an object; null otherwise.
  static const Array* as_member(const Json& json) {
    const auto* array = json.node_ == nullptr ? nullptr : std::get_if<Array>(&json.node_->value);
    const bool fits = array != nullptr && array->size() == 2 && array->front().node_ != nullptr &&
                      std::holds_alternative<std::string>(array->front().node_->value);
    return fits ? array : nullptr;
  }
};

Json::Json() noexcept = default;
Json::Json(std::nullptr_t) noexcept {}
Json::Json(std::shared_ptr<Node> node) noexcept : node_(std::move(node)) {}
Json::Json(double value) : node_(std::isfinite(value) ? Node::of(value) : nullptr) {}
Json::Json(float value) : Json(double{value}) {}
Json::Json(const char* text) : node_(Node::of(std::string(text))) {}
Json::Json(std::string_view text) : node_(Node::of(std::string(text))) {}
Json::Json(const std::string& text) : node_(Node::of(text)) {}
Json::Json(const Json& other) noexcept = default;
Json::Json(Json&& other) noexcept = default;
Json& Json::operator=(const Json& other) noexcept = default;
Json& Json::operator=(Json&& other) noexcept = default;
Json::~Json() = default;

Json Json::of_bool(bool value) { return Json(Node::of(value)); }
Json Json::of_signed(std::int64_t value) { return Json(Node::of(value)); }
Json Json::of_unsigned(std::uint64_t value) { return Json(Node::of(value)); }
Json Json::array() { return Json(Node::of(Node::Array())); }
Json Json::object() { return Json(Node::of(Node::Object())); }
Json Json::array(std::initializer_list<Json> elements) {
  return Json(Node::of(Node::Array(elements)));
}

Json Json::of(const JsonValue& value) {
  if (const JsonValue::Array* const elements = value.as_array()) {
    Json out = array();
    for (const JsonValue& element : *elements) {
      out.push_back(of(element));
    }
    return out;
  }
  if (const JsonValue::Object* const members = value.as_object()) {
    Json out = object();
    for (const auto& [key, member] : *members) {
      out[key] = of(member);
    }
    return out;
  }
  return std::visit(
      [](const auto& scalar) {
        using Scalar = std::decay_t<decltype(scalar)>;
        if constexpr (std::is_same_v<Scalar, JsonValue::Array> ||
                      std::is_same_v<Scalar, JsonValue::Object>) {
          return Json();  // above
        } else {
          return Json(scalar);
        }
      },
      value.storage());
}

Json::Json(std::initializer_list<Json> elements) {
  const bool is_object = std::all_of(elements.begin(), elements.end(), [](const Json& element) {
    return Node::as_member(element) != nullptr;
  });
  if (!is_object) {
    node_ = Node::of(Node::Array(elements));
    return;
  }
  node_ = Node::of(Node::Object());
  for (const Json& element : elements) {
    const Node::Array& member = *Node::as_member(element);
    (*this)[std::get<std::string>(member.front().node_->value)] = member.back();
  }
}

Json::Node& Json::own() {
  if (node_.use_count() > 1) {
    node_ = std::make_shared<Node>(*node_);
  }
  return *node_;
}

bool Json::is_null() const { return node_ == nullptr; }

std::size_t Json::size() const {
  if (node_ == nullptr) {
    return 0;
  }
  if (const auto* array = std::get_if<Node::Array>(&node_->value)) {
    return array->size();
  }
  const auto* object = std::get_if<Node::Object>(&node_->value);
  return object == nullptr ? 0 : object->size();
}

Json& Json::operator[](std::string_view key) {
  if (node_ == nullptr) {
    node_ = Node::of(Node::Object());
  }
  auto* object = std::get_if<Node::Object>(&own().value);
  expects(object != nullptr, "members of a JSON object");
  const auto found = std::find_if(object->begin(), object->end(),
                                  [&](const auto& member) { return member.first == key; });
  return found != object->end() ? found->second
                                : object->emplace_back(std::string(key), Json()).second;
}

std::vector<Json>& Json::elements() {
  auto* array = node_ == nullptr ? nullptr : std::get_if<Node::Array>(&own().value);
  expects(array != nullptr, "the elements of a JSON list");
  return *array;
}

Json& Json::back() {
  expects(!elements().empty(), "the last element of a JSON list");
  return elements().back();
}

void Json::push_back(Json value) {
  if (node_ == nullptr) {
    node_ = Node::of(Node::Array());
  }
  auto* array = std::get_if<Node::Array>(&own().value);
  expects(array != nullptr, "elements of a JSON list");
  array->push_back(std::move(value));
}

void Json::update(const Json& other) {
  const auto* members =
      other.node_ == nullptr ? nullptr : std::get_if<Node::Object>(&other.node_->value);
  expects(members != nullptr, "the members of a JSON object");
  for (const auto& [key, member] : Node::Object(*members)) {
    (*this)[key] = member;
  }
}

std::string Json::dump(int indent) const {
  return Node::written(*this).dump(indent, ' ', false,
                                   nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace vindex
