// Owns packing: bytes by planes, deflate, base64; and what stands for names of a model.
#include "page_values.hpp"

#include <vindex/error.hpp>

#include <openssl/evp.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <unordered_map>
#include <utility>
#include <zlib.h>

namespace vindex::report {

namespace {

/// Up to so many numbers stand as they are, for whoever reads the page's source.
constexpr std::size_t kMostPlain = 256;
constexpr char kLayerMark = '\x01';
constexpr char kExpertMark = '\x02';

/// The first bytes of all values, then the second ones, ...: planes of bytes that hardly change.
template <typename T>
std::vector<std::byte> planes_of(std::span<const T> values) {
  static_assert(std::endian::native == std::endian::little);
  const std::span<const std::byte> bytes = std::as_bytes(values);
  std::vector<std::byte> planes(bytes.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    for (std::size_t b = 0; b < sizeof(T); ++b) {
      planes[b * values.size() + i] = bytes[i * sizeof(T) + b];
    }
  }
  return planes;
}

std::vector<std::byte> deflated(std::span<const std::byte> bytes) {
  uLongf size = compressBound(static_cast<uLong>(bytes.size()));
  std::vector<std::byte> out(size);
  const int result =
      compress2(reinterpret_cast<Bytef*>(out.data()), &size,
                reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uLong>(bytes.size()), 5);
  if (result != Z_OK) {
    throw OutOfMemory("deflating numbers of a page", size);
  }
  out.resize(size);
  return out;
}

template <typename T>
Json packed(std::span<const T> values, const char* type) {
  return {{"n", values.size()}, {"t", type}, {"z", base64(deflated(planes_of(values)))}};
}

float rounded(double value, int bits) {
  const auto single = static_cast<float>(value);
  if (bits >= 24 || !std::isfinite(single)) {
    return single;
  }
  const int dropped = 24 - bits;
  const std::uint32_t half = 1U << static_cast<unsigned>(dropped - 1);
  const auto pattern = std::bit_cast<std::uint32_t>(single);
  const auto near = std::bit_cast<float>((pattern + half) & ~(2 * half - 1));
  return std::isfinite(near) ? near : single;
}

/// `name` with a mark in place of the first number that is `number`, from `from` on; the place
/// behind the mark, or npos where there is none. Numbers are runs of digits.
std::size_t mark_number(std::string& name, std::size_t from, std::int32_t number, char mark) {
  const std::string wanted = std::to_string(number);
  const auto is_digit = [&](std::size_t i) { return name[i] >= '0' && name[i] <= '9'; };
  for (std::size_t i = from; number >= 0 && i < name.size();) {
    std::size_t end = i;
    while (end < name.size() && is_digit(end)) {
      ++end;
    }
    if (end > i && name.compare(i, end - i, wanted) == 0) {
      name.replace(i, end - i, 1, mark);
      return i + 1;
    }
    i = end > i ? end : i + 1;
  }
  return std::string::npos;
}

std::string template_of(const NamedRow& row) {
  std::string name = printable(std::string(row.name));  // files that others made may hold anything
  const std::size_t behind = mark_number(name, 0, row.layer, kLayerMark);
  mark_number(name, behind == std::string::npos ? 0 : behind, row.expert, kExpertMark);
  return name;
}

Json texts_of(std::span<const std::string> texts, std::span<const std::string> distinct) {
  std::unordered_map<std::string_view, double> places;
  for (std::size_t i = 0; i < distinct.size(); ++i) {
    places.emplace(distinct[i], static_cast<double>(i));
  }
  std::vector<double> at;
  at.reserve(texts.size());
  for (const std::string& text : texts) {
    at.push_back(places.at(text));
  }
  Json list = Json::array();
  for (const std::string& text : distinct) {
    list.push_back(text);
  }
  return {{"texts", std::move(list)}, {"at", packed_integers(at)}};
}

}  // namespace

std::string base64(std::span<const std::byte> bytes) {
  expects(bytes.size() <= std::numeric_limits<int>::max() / 2, "a page below some GB");
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');  // with the NUL that is written too
  EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                  reinterpret_cast<const unsigned char*>(bytes.data()),
                  static_cast<int>(bytes.size()));
  text.pop_back();
  return text;
}

Json packed_reals(std::span<const double> values, int bits) {
  if (values.size() <= kMostPlain) {
    return Json::list(values, [&](double value) { return Json(rounded(value, bits)); });
  }
  std::vector<float> singles;
  singles.reserve(values.size());
  for (const double value : values) {
    singles.push_back(rounded(value, bits));
  }
  return packed(std::span<const float>(singles), "f32");
}

Json packed_integers(std::span<const double> values) {
  const auto integer = [](double value) {
    constexpr double kMost = std::numeric_limits<std::int32_t>::max();
    return std::abs(value) <= kMost ? static_cast<std::int32_t>(value)
                                    : std::numeric_limits<std::int32_t>::min();
  };
  if (values.size() <= kMostPlain) {
    return Json::list(values, [&](double value) {
      const std::int32_t whole = integer(value);
      return whole == std::numeric_limits<std::int32_t>::min() ? Json() : Json(whole);
    });
  }
  std::vector<std::int32_t> integers;
  integers.reserve(values.size());
  for (const double value : values) {
    integers.push_back(integer(value));
  }
  return packed(std::span<const std::int32_t>(integers), "i32");
}

Json packed_codes(std::span<const std::uint16_t> values) {
  return values.size() <= kMostPlain
             ? Json::list(values, [](std::uint16_t value) { return Json(value); })
             : packed(values, "u16");
}

Json packed_texts(std::span<const std::string> texts) {
  std::vector<std::string> distinct;
  std::unordered_map<std::string_view, std::size_t> seen;
  for (const std::string& text : texts) {
    if (seen.emplace(text, distinct.size()).second) {
      distinct.push_back(text);
    }
  }
  return texts_of(texts, distinct);
}

Json packed_names(std::span<const NamedRow> rows) {
  std::vector<std::string> templates;
  templates.reserve(rows.size());
  for (const NamedRow& row : rows) {
    templates.push_back(template_of(row));
  }
  return packed_texts(templates);
}

std::string script_text(const Json& json) {
  const std::string text = json.dump();
  std::string out;
  out.reserve(text.size() + text.size() / 64);
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '<') {
      out += "\\u003c";
    } else if (text.compare(i, 3, "\xE2\x80\xA8") == 0 || text.compare(i, 3, "\xE2\x80\xA9") == 0) {
      out += text[i + 2] == '\xA8' ? "\\u2028" : "\\u2029";
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

}  // namespace vindex::report
