// Owns keys as JSON entries and their encoding back, type by type.
#include "manifest_keys.hpp"

#include "core/json/json_document.hpp"
#include "core/text/text_parts.hpp"
#include "core/text/utf8.hpp"
#include "gguf/header_stream.hpp"
#include "gguf/values/encoded_value.hpp"
#include "gguf/values/value.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

namespace vindex::organ {
namespace {

/// Longer values go into the sidecar.
constexpr std::uint64_t kMaxElements = 256;
constexpr std::uint64_t kMaxBytes = 16384;

Json number_json(gguf::ValueType type, std::span<const std::byte> bytes) {
  const std::uint64_t bits = gguf::number_bits(bytes);
  const gguf::Scalar value = gguf::scalar_of(type, bits);
  if (const double* real = std::get_if<double>(&value)) {
    return std::isfinite(*real) ? Json(*real)
                                : Json{{"bits", fmt::format("0x{:0{}x}", bits, 2 * bytes.size())}};
  }
  if (const std::int64_t* number = std::get_if<std::int64_t>(&value)) {
    return *number;
  }
  return bits;
}

/// The value's JSON, or nothing where it has to lie in the sidecar.
std::optional<Json> array_json(std::span<const std::byte> value) {
  const gguf::EncodedArray array = gguf::read_array(value);
  Json list = Json::array();
  if (array.element_type == gguf::ValueType::kString) {
    for (std::string& text : gguf::read_strings(array)) {
      if (!is_utf8(text)) {
        return std::nullopt;
      }
      list.push_back(std::move(text));
    }
    return list;
  }
  const std::size_t width = gguf::number_bytes(array.element_type);
  if (width == 0) {
    return std::nullopt;
  }
  for (std::uint64_t i = 0; i < array.count; ++i) {
    list.push_back(number_json(array.element_type, array.elements.subspan(i * width, width)));
  }
  return list;
}

std::optional<Json> value_json(const gguf::Key& key, const gguf::Header& header,
                               ByteSource& source) {
  if (key.value_bytes > kMaxBytes ||
      (key.type == gguf::ValueType::kArray && key.array_count > kMaxElements)) {
    return std::nullopt;
  }
  const std::vector<std::byte> value = gguf::encoded_value(key, header, source);
  if (key.type == gguf::ValueType::kArray) {
    return array_json(value);
  }
  if (key.type == gguf::ValueType::kString) {
    const auto* bytes = reinterpret_cast<const char*>(value.data()) + 8;
    std::string text(bytes, value.size() - 8);
    return is_utf8(text) ? std::optional<Json>(std::move(text)) : std::nullopt;
  }
  if (key.type == gguf::ValueType::kBool) {
    return Json(gguf::number_bits(value) != 0);
  }
  return number_json(key.type, value);
}

/// One entry being read.
class Entry {
 public:
  Entry(const JsonValue& json, const std::string& where) : json_(json), where_(where) {
    name = text("key");
    type = type_of("type");
  }
  [[noreturn]] void fail(const std::string& why) const {
    throw FormatError("E-ORGAN-MANIFEST", where_,
                      fmt::format("key \"{}\": {}", excerpt(name), why));
  }
  std::string text(const char* member) const {
    const JsonValue* value = json_.find(member);
    const std::string* string = value == nullptr ? nullptr : value->as_string();
    if (string == nullptr) {
      fail(fmt::format("no text \"{}\"", member));
    }
    return *string;
  }
  gguf::ValueType type_of(const char* member) const {
    const auto found = gguf::type_named(text(member));
    if (!found) {
      fail(fmt::format("\"{}\" is none of GGUF's value types", text(member)));
    }
    return *found;
  }

  /// Refuses a "count" that is none, or another than `elements`.
  void require_count(std::uint64_t elements) const {
    const JsonValue* value = json_.find("count");
    const std::uint64_t* count = value == nullptr ? nullptr : value->as_unsigned();
    if (count == nullptr || *count != elements) {
      fail(count == nullptr
               ? std::string("an array needs the \"count\" of its elements")
               : fmt::format("its \"count\" is {}, but it has {} elements", *count, elements));
    }
  }

  void encode(std::vector<std::byte>& out, gguf::ValueType of, const JsonValue& value) const {
    if (of == gguf::ValueType::kString) {
      const std::string* text = value.as_string();
      if (text == nullptr) {
        fail("its value is not a string");
      }
      return gguf::append(out, std::string_view(*text));
    }
    const std::uint64_t bits = gguf::is_float(of) ? float_bits(of, value) : integer_bits(of, value);
    gguf::append_bytes(out, std::as_bytes(std::span(&bits, 1)).first(gguf::number_bytes(of)));
  }

  void encode_array(std::vector<std::byte>& out) const {
    const gguf::ValueType element = type_of("subtype");
    const JsonValue* value = json_.find("value");
    const JsonValue::Array* list = value == nullptr ? nullptr : value->as_array();
    if (element == gguf::ValueType::kArray || list == nullptr) {
      fail("an array needs a \"subtype\" that is not an array and a list as its \"value\"");
    }
    require_count(list->size());
    gguf::append(out, static_cast<std::uint32_t>(element));
    gguf::append(out, static_cast<std::uint64_t>(list->size()));
    for (const JsonValue& each : *list) {
      encode(out, element == gguf::ValueType::kBool ? gguf::ValueType::kU8 : element, each);
    }
  }

  std::string name;
  gguf::ValueType type = gguf::ValueType::kU32;

 private:
  std::uint64_t integer_bits(gguf::ValueType of, const JsonValue& value) const {
    const unsigned int width = 8U * static_cast<unsigned int>(gguf::number_bytes(of));
    if (const bool* flag = value.as_bool(); flag != nullptr && of == gguf::ValueType::kBool) {
      return *flag ? 1 : 0;
    }
    if (const std::uint64_t* number = value.as_unsigned()) {
      const std::uint64_t most = of == gguf::ValueType::kBool ? 1
                                 : gguf::is_signed(of)        ? (~std::uint64_t{0} >> (65U - width))
                                                       : (~std::uint64_t{0} >> (64U - width));
      if (*number <= most) {
        return *number;
      }
    }
    if (const auto* number = std::get_if<std::int64_t>(&value.storage());
        number != nullptr && gguf::is_signed(of) &&
        *number >= std::numeric_limits<std::int64_t>::min() >> (64U - width)) {
      return static_cast<std::uint64_t>(*number);
    }
    fail(fmt::format("its value is no {}", gguf::type_name(of)));
  }

  std::uint64_t float_bits(gguf::ValueType of, const JsonValue& value) const {
    if (const JsonValue* text = value.find("bits");
        text != nullptr && text->as_string() != nullptr) {
      const std::string_view digits = *text->as_string();
      const auto bits =
          whole_number<std::uint64_t>(digits.substr(std::min<std::size_t>(digits.size(), 2)), 16);
      if (digits.starts_with("0x") && digits.size() == 2 + 2 * gguf::number_bytes(of) && bits) {
        return *bits;
      }
      fail("\"bits\" is not a hexadecimal number of its width");
    }
    const std::optional<double> number = value.as_number();
    if (!number) {
      fail(fmt::format("its value is no {}", gguf::type_name(of)));
    }
    if (of == gguf::ValueType::kF64) {
      return std::bit_cast<std::uint64_t>(*number);
    }
    if (std::abs(*number) > static_cast<double>(std::numeric_limits<float>::max())) {
      fail("its value does not fit into f32");
    }
    return std::bit_cast<std::uint32_t>(static_cast<float>(*number));
  }

  const JsonValue& json_;
  const std::string& where_;
};

}  // namespace

Json key_entry(const gguf::Key& key, const gguf::Header& header, ByteSource& source,
               gguf::KeySection& sidecar, const std::string& sidecar_name) {
  if (!is_utf8(key.name)) {
    throw FormatError("E-ORGAN-NAME", source.name(),
                      fmt::format("key \"{}\": a name that is not UTF-8 cannot stand in a manifest",
                                  excerpt(key.name)));
  }
  Json entry = {{"key", key.name}, {"type", gguf::type_name(key.type)}};
  if (key.type == gguf::ValueType::kArray) {
    entry["subtype"] = gguf::type_name(key.element_type);
    entry["count"] = key.array_count;
  }
  if (auto value = value_json(key, header, source)) {
    entry["value"] = std::move(*value);
  } else {
    entry["array_ref"] = sidecar_name;
    sidecar.copy(key, header, source);
  }
  return entry;
}

void add_key_entry(const JsonValue& json, const std::string& where, const KeySidecar& sidecar,
                   gguf::KeySection& keys) {
  const Entry entry(json, where);
  if (json.find("array_ref") != nullptr) {
    const gguf::Key* key =
        sidecar.header == nullptr ? nullptr : gguf::find_key(sidecar.header->keys, entry.name);
    if (entry.text("array_ref") != sidecar.name || key == nullptr || key->type != entry.type) {
      entry.fail(fmt::format("refers to what {} does not hold", sidecar.name));
    }
    if (key->type == gguf::ValueType::kArray) {
      if (entry.type_of("subtype") != key->element_type) {
        entry.fail(fmt::format("its \"subtype\" is not that of {}", sidecar.name));
      }
      entry.require_count(key->array_count);
    }
    keys.copy(*key, *sidecar.header, *sidecar.source);
    return;
  }
  std::vector<std::byte> value;
  if (entry.type == gguf::ValueType::kArray) {
    entry.encode_array(value);
  } else if (const JsonValue* scalar = json.find("value")) {
    entry.encode(value, entry.type, *scalar);
  } else {
    entry.fail("has no \"value\"");
  }
  keys.add_encoded(entry.name, entry.type, value);
}

}  // namespace vindex::organ
