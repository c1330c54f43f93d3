// Owns building the tree of a JSON text.
#include "json.hpp"

#include <vindex/error.hpp>

#include <string>
#include <utility>

namespace vindex {

std::optional<double> JsonValue::as_number() const {
  if (const auto* real = std::get_if<double>(&storage_)) {
    return *real;
  }
  if (const auto* negative = std::get_if<std::int64_t>(&storage_)) {
    return static_cast<double>(*negative);
  }
  const std::uint64_t* const whole = as_unsigned();
  return whole == nullptr ? std::nullopt : std::optional(static_cast<double>(*whole));
}

const JsonValue* JsonValue::find(std::string_view key) const {
  const Object* object = as_object();
  if (object == nullptr) {
    return nullptr;
  }
  for (const auto& [name, value] : *object) {
    if (name == key) {
      return &value;
    }
  }
  return nullptr;
}

namespace {
/// Recursion for reading and for destroying the tree is as deep as the limit; anything that a
/// caller may sensibly ask for is far from the stack's end.
constexpr std::size_t kDeepest = 256;

/// Builds the tree as far as `kept` values, counting them down; the rest is only read over.
class TreeBuilder {
 public:
  TreeBuilder(JsonScanner& scanner, std::size_t kept) : scanner_(scanner), left_(kept) {}

  JsonValue value();
  bool cut() const { return cut_; }

 private:
  /// True where the next value, which has been read over, has no place in the tree.
  bool skipped() {
    if (left_ == 0) {
      cut_ = true;
      scanner_.skip_value();
      return true;
    }
    return false;
  }

  JsonScanner& scanner_;
  std::size_t left_;
  bool cut_ = false;
};

JsonValue TreeBuilder::value() {  // NOLINT(misc-no-recursion)
  --left_;
  switch (scanner_.peek()) {
    case JsonKind::kNull:
      scanner_.null();
      return JsonValue();
    case JsonKind::kBool:
      return JsonValue(JsonValue::Storage(scanner_.boolean()));
    case JsonKind::kNumber:
      return std::visit([](auto number) { return JsonValue(JsonValue::Storage(number)); },
                        scanner_.number());
    case JsonKind::kString:
      return JsonValue(JsonValue::Storage(std::string(scanner_.string())));
    case JsonKind::kArray: {
      JsonValue::Array array;
      scanner_.enter_array();
      while (scanner_.next_element()) {
        if (!skipped()) {
          array.push_back(value());
        }
      }
      return JsonValue(JsonValue::Storage(std::move(array)));
    }
    case JsonKind::kObject:
      break;
  }
  JsonValue::Object object;
  scanner_.enter_object();
  while (const auto key = scanner_.next_key()) {
    std::string name(*key);
    if (!skipped()) {
      object.emplace_back(std::move(name), value());
    }
  }
  return JsonValue(JsonValue::Storage(std::move(object)));
}
}  // namespace

JsonValue read_json_value(JsonScanner& scanner, std::size_t most) {
  expects(most > 0, "a tree has a root");
  TreeBuilder builder(scanner, most);
  JsonValue value = builder.value();
  if (builder.cut()) {
    scanner.fail("E-JSON-LIMIT", "more than " + std::to_string(most) + " values within one");
  }
  return value;
}

JsonValue parse_json(std::string_view text, const std::string& where, const JsonLimits& limits,
                     std::uint64_t base_offset, bool* cut) {
  expects(limits.depth <= kDeepest, "JsonLimits::depth is at most 256");
  expects(limits.kept_values > 0, "a tree has a root");
  std::string copy(text.substr(0, limits.bytes + 1));  // a longer text is refused unread
  JsonScanner scanner(copy, where, limits, base_offset);
  TreeBuilder builder(scanner, limits.kept_values);
  JsonValue value = builder.value();
  scanner.finish();
  if (cut != nullptr) {
    *cut = builder.cut();
  }
  return value;
}

}  // namespace vindex
