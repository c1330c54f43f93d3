// Owns numbers and strings of an array, and an array in another order.
#include "key_arrays.hpp"

#include <vindex/core/error.hpp>
#include <vindex/core/integers.hpp>

#include <cstring>
#include <iterator>

namespace vindex::organ {
namespace {

constexpr std::size_t kHead = 4 + 8;  // element type, count

[[noreturn]] void changed() {
  throw FormatError("E-GGUF-KEY", "an array", "changed while it was read");
}

template <typename Number>
Number array_number(std::span<const std::byte> bytes, std::size_t at) {
  if (at > bytes.size() || bytes.size() - at < sizeof(Number)) {
    changed();
  }
  Number number = 0;
  std::memcpy(&number, bytes.data() + at, sizeof(Number));
  return number;
}

/// Where each element begins, and the end of the last.
std::vector<std::size_t> bounds_of(const EncodedArray& array) {
  std::vector<std::size_t> bounds = {0};
  const std::size_t width = number_bytes(array.element_type);
  for (std::uint64_t i = 0; i < array.count; ++i) {
    std::size_t bytes = width;
    if (width == 0) {
      const auto length = array_number<std::uint64_t>(array.elements, bounds.back());
      if (length > array.elements.size()) {
        changed();
      }
      bytes = 8 + static_cast<std::size_t>(length);
    }
    if (bytes > array.elements.size() - bounds.back()) {
      changed();
    }
    bounds.push_back(bounds.back() + bytes);
  }
  return bounds;
}

}  // namespace

std::size_t number_bytes(shard::GgufType type) {
  constexpr std::size_t kBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  const auto index = static_cast<std::size_t>(type);
  expects(index < std::size(kBytes), "number_bytes: a value type");
  return kBytes[index];
}

EncodedArray read_array(std::span<const std::byte> value) {
  EncodedArray array;
  const auto type = array_number<std::uint32_t>(value, 0);
  if (type > static_cast<std::uint32_t>(shard::GgufType::kF64)) {
    changed();
  }
  array.element_type = static_cast<shard::GgufType>(type);
  array.count = array_number<std::uint64_t>(value, 4);
  array.elements = value.subspan(kHead);
  return array;
}

std::vector<std::string> read_strings(const EncodedArray& array) {
  if (array.element_type != shard::GgufType::kString) {
    changed();
  }
  const std::vector<std::size_t> bounds = bounds_of(array);
  std::vector<std::string> strings;
  for (std::size_t i = 0; i + 1 < bounds.size(); ++i) {
    const auto bytes = array.elements.subspan(bounds[i] + 8, bounds[i + 1] - bounds[i] - 8);
    strings.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return strings;
}

std::vector<std::byte> reordered(const EncodedArray& array, std::span<const std::size_t> order) {
  const std::vector<std::size_t> bounds = bounds_of(array);
  const auto type = static_cast<std::uint32_t>(array.element_type);
  const auto count = static_cast<std::uint64_t>(order.size());
  std::vector<std::byte> out(kHead);
  std::memcpy(out.data(), &type, sizeof type);
  std::memcpy(out.data() + 4, &count, sizeof count);
  for (const std::size_t i : order) {
    expects(i + 1 < bounds.size(), "reordered: an element of the array");
    const auto part = array.elements.subspan(bounds[i], bounds[i + 1] - bounds[i]);
    out.insert(out.end(), part.begin(), part.end());
  }
  return out;
}

}  // namespace vindex::organ
