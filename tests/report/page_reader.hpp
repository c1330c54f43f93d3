// Reads what a page holds, as data.js does: the documents in its scripts and the packed lists in
// them.
#pragma once

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>
#include <zlib.h>

namespace vindex::report::testing {

using Document = nlohmann::json;

inline std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

/// Block `name` of file `file`.
inline Document block_of(const std::string& page, std::size_t file, const std::string& name) {
  const std::string begin =
      "<script type=\"application/json\" id=\"data-" + std::to_string(file) + "-" + name + "\">";
  const std::size_t at = page.find(begin);
  if (at == std::string::npos) {
    ADD_FAILURE() << "no " << begin;
    return {};
  }
  const std::size_t end = page.find("</script>", at);
  return Document::parse(page.substr(at + begin.size(), end - at - begin.size()));
}

inline std::vector<std::uint8_t> from_base64(const std::string& text) {
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::vector<std::uint8_t> bytes;
  std::uint32_t word = 0;
  int bits = 0;
  for (const char letter : text) {
    if (letter == '=') {
      break;
    }
    word = word << 6U | static_cast<std::uint32_t>(digits.find(letter));
    bits += 6;
    if (bits >= 8) {
      bits -= 8;
      bytes.push_back(static_cast<std::uint8_t>(word >> bits & 255U));
    }
  }
  return bytes;
}

template <typename T>
std::vector<double> unpacked(const Document& list) {
  const std::vector<std::uint8_t> packed = from_base64(list.at("z"));
  const std::size_t count = list.at("n");
  std::vector<std::uint8_t> planes(count * sizeof(T));
  uLongf size = planes.size();
  EXPECT_EQ(uncompress(planes.data(), &size, packed.data(), packed.size()), Z_OK);
  EXPECT_EQ(size, planes.size());
  std::vector<double> values;
  for (std::size_t i = 0; i < count; ++i) {
    std::uint8_t bytes[sizeof(T)];
    for (std::size_t b = 0; b < sizeof(T); ++b) {
      bytes[b] = planes[b * count + i];
    }
    T value;
    std::memcpy(&value, bytes, sizeof(T));
    const bool is_missing =
        std::is_same_v<T, std::int32_t> && value == std::numeric_limits<T>::min();
    values.push_back(is_missing ? std::numeric_limits<double>::quiet_NaN()
                                : static_cast<double>(value));
  }
  return values;
}

/// A list of numbers, plain or packed.
inline std::vector<double> numbers_of(const Document& list) {
  std::vector<double> values;
  if (list.is_array()) {
    for (const Document& value : list) {
      values.push_back(value.is_null() ? std::numeric_limits<double>::quiet_NaN()
                                       : value.get<double>());
    }
    return values;
  }
  const std::string type = list.at("t");
  return type == "f32"   ? unpacked<float>(list)
         : type == "i32" ? unpacked<std::int32_t>(list)
                         : unpacked<std::uint16_t>(list);
}

inline std::vector<std::string> texts_of(const Document& list) {
  std::vector<std::string> texts;
  for (const double at : numbers_of(list.at("at"))) {
    texts.push_back(list.at("texts").at(static_cast<std::size_t>(at)));
  }
  return texts;
}

/// Names with the layer and the expert of their row in place of the marks.
inline std::vector<std::string> names_of(const Document& rows) {
  std::vector<std::string> names = texts_of(rows.at("tensor"));
  const std::vector<double> layers = numbers_of(rows.at("layer"));
  const std::vector<double> experts = numbers_of(rows.at("expert"));
  const auto fill = [](std::string& name, char mark, double number) {
    const std::size_t at = name.find(mark);
    if (at != std::string::npos) {
      name.replace(at, 1, std::to_string(static_cast<int>(number)));
    }
  };
  for (std::size_t i = 0; i < names.size(); ++i) {
    fill(names[i], '\x01', layers[i]);
    fill(names[i], '\x02', experts[i]);
  }
  return names;
}

}  // namespace vindex::report::testing
