#include <vindex/core/error.hpp>
#include <vindex/core/json.hpp>
#include <vindex/core/json_scanner.hpp>

namespace vindex {

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

JsonValue read_value(JsonScanner& scanner) {  // NOLINT(misc-no-recursion)
  switch (scanner.peek()) {
    case JsonKind::kNull:
      scanner.null();
      return JsonValue();
    case JsonKind::kBool:
      return JsonValue(JsonValue::Storage(scanner.boolean()));
    case JsonKind::kNumber:
      return std::visit([](auto number) { return JsonValue(JsonValue::Storage(number)); },
                        scanner.number());
    case JsonKind::kString:
      return JsonValue(JsonValue::Storage(std::string(scanner.string())));
    case JsonKind::kArray: {
      JsonValue::Array array;
      scanner.enter_array();
      while (scanner.next_element()) {
        array.push_back(read_value(scanner));
      }
      return JsonValue(JsonValue::Storage(std::move(array)));
    }
    case JsonKind::kObject:
      break;
  }
  JsonValue::Object object;
  scanner.enter_object();
  while (const auto key = scanner.next_key()) {
    std::string name(*key);
    object.emplace_back(std::move(name), read_value(scanner));
  }
  return JsonValue(JsonValue::Storage(std::move(object)));
}
}  // namespace

JsonValue parse_json(std::string_view text, const std::string& where, const JsonLimits& limits,
                     std::uint64_t base_offset) {
  expects(limits.depth <= kDeepest, "JsonLimits::depth is at most 256");
  std::string copy(text.substr(0, limits.bytes + 1));  // a longer text is refused unread
  JsonScanner scanner(copy, where, limits, base_offset);
  JsonValue value = read_value(scanner);
  scanner.finish();
  return value;
}

}  // namespace vindex
