// Owns setting and checking shapes, and the texts of what is wrong.
#include "weight.hpp"

#include "core/integers.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

namespace vindex::model {

using decode::ElementType;
using input::StoredTensor;

std::string_view type_name(ElementType type) { return decode::element_type_row(type).name; }

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

bool is_float_scale(ElementType type) {
  return type == ElementType::kF32 || type == ElementType::kBF16 || type == ElementType::kF16;
}

bool is_full_float(ElementType type) { return type == ElementType::kF64 || is_float_scale(type); }

bool is_float8(ElementType type) {
  return type == ElementType::kF8E4M3 || type == ElementType::kF8E5M2 ||
         type == ElementType::kF8E4M3FNUZ || type == ElementType::kF8E5M2FNUZ;
}

std::int64_t element_count(const StoredTensor& tensor) {
  std::uint64_t count = 1;
  for (const std::int64_t side : tensor.shape) {
    const auto next = checked_multiply(count, static_cast<std::uint64_t>(side));
    if (!next || !checked_count(*next)) {
      return -1;
    }
    count = *next;
  }
  return static_cast<std::int64_t>(count);
}

bool is_power_scale(ElementType type) {
  return type == ElementType::kF8E8M0 || type == ElementType::kU8;
}

decode::Encoding unsupported_encoding(std::string label, ElementType type) {
  decode::Encoding encoding;
  encoding.scheme = decode::Scheme::kUnsupported;
  encoding.type = type;
  encoding.label = std::move(label);
  return encoding;
}

void Weight::set_shape(std::int64_t rows, std::int64_t cols) {
  logical.shape.assign(codes().shape.begin(),
                       codes().shape.begin() + (codes().shape.size() == 3 ? 1 : 0));
  logical.shape.push_back(rows);
  logical.shape.push_back(cols);
  logical.shape_known = true;
}

void Weight::forget_shape() {
  logical.shape.clear();
  logical.shape_known = false;
}

bool Weight::has_shape(const StoredTensor& scale, std::int64_t rows, std::int64_t cols) const {
  const std::vector<std::int64_t>& shape = scale.shape;
  const std::vector<std::int64_t>& own = codes().shape;
  if (own.size() == 3) {
    return shape.size() == 3 && shape[0] == own[0] && shape[1] == rows && shape[2] == cols;
  }
  if (shape.size() == 2) {
    return shape[0] == rows && shape[1] == cols;
  }
  if (shape.size() == 1) {
    return shape[0] == rows && cols == 1;
  }
  return shape.empty() && rows == 1 && cols == 1;
}

void Weight::fail(std::string why) {
  if (logical.unsupported.empty()) {
    logical.unsupported = std::move(why);
  }
}

void Weight::name_only(std::string label) {
  fail(fmt::format("scheme not supported: {}", label));
  logical.encoding = unsupported_encoding(std::move(label), codes().type);
}

void Weight::misshapen(const StoredTensor& scale, std::string_view wanted) {
  fail(fmt::format("scale misshapen: {} is {}, {}", printable(scale.name), shape_text(scale.shape),
                   wanted));
}

void Weight::mistyped(const StoredTensor& scale) {
  fail(fmt::format("scale of wrong type: {} is {}", printable(scale.name), type_name(scale.type)));
}

void Weight::missing(std::string_view suffix) {
  std::string base = logical.name;
  if (base.ends_with(".weight")) {
    base.resize(base.size() - 7);
  }
  fail(fmt::format("scale missing: {}{}", printable(base), suffix));
}

void Weight::codes_misshapen() {
  fail(
      fmt::format("codes misshapen: {} is {}", printable(codes().name), shape_text(codes().shape)));
}

}  // namespace vindex::model
