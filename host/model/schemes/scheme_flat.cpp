// Owns the schemes whose codes run on over the whole matrix, whose logical shape stands beside
// them: bitsandbytes, HQQ, BitNet.
#include "weight.hpp"

#include "core/json/json.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <cmath>

namespace vindex::model {

using decode::CompanionRole;
using decode::ElementType;
using input::StoredTensor;

namespace {

/// The two sides as the logical shape, where they are sides whose product can be counted.
bool set_sides(Weight& weight, std::int64_t rows, std::int64_t cols) {
  if (rows < 1 || cols < 1 || rows > kMaxSide || cols > kMaxSide) {
    return false;
  }
  weight.logical.shape = {rows, cols};
  weight.logical.shape_known = true;
  return true;
}

/// Sets what every flat layout needs.
void set_whole(decode::Encoding& encoding, std::int64_t rows, std::int64_t cols) {
  encoding.block_rows = 1;
  encoding.whole_rows = rows;
  encoding.whole_cols = cols;
}

std::int64_t member(const JsonValue& object, std::string_view key) {
  const JsonValue* value = object.find(key);
  const std::uint64_t* number = value == nullptr ? nullptr : value->as_unsigned();
  return number == nullptr || *number > static_cast<std::uint64_t>(kMaxSide)
             ? 0
             : static_cast<std::int64_t>(*number);
}

/// A JSON number of any kind.
std::optional<double> number_of(const JsonValue* value) {
  if (value == nullptr) {
    return std::nullopt;
  }
  if (const auto* whole = std::get_if<std::uint64_t>(&value->storage())) {
    return static_cast<double>(*whole);
  }
  if (const auto* whole = std::get_if<std::int64_t>(&value->storage())) {
    return static_cast<double>(*whole);
  }
  const auto* real = std::get_if<double>(&value->storage());
  return real == nullptr ? std::nullopt : std::optional(*real);
}

/// Whether `part` is there with `count` elements of `type`; fails otherwise.
bool expect_companion(Weight& weight, Part part, std::string_view suffix, std::int64_t count,
                      ElementType type) {
  const StoredTensor* tensor = weight.companion(part);
  if (tensor == nullptr) {
    weight.fail(fmt::format("companion missing: {}{}", printable(weight.logical.name), suffix));
    return false;
  }
  if (tensor->type != type) {
    weight.mistyped(*tensor);
    return false;
  }
  if (element_count(*tensor) != count) {
    weight.misshapen(*tensor, fmt::format("{} elements are needed", count));
    return false;
  }
  return true;
}

/// What bitsandbytes' quant_state says: {"quant_type", "blocksize", "shape", "nested_blocksize",
/// "nested_offset", ...}.
struct LookupState {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t block = 0;
  std::int64_t nested_block = 0;
  double nested_offset = 0.0;
  std::string type = "nf4";
};

LookupState read_state(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const JsonValue json = parse_json(text, "quant_state", JsonLimits{});
  LookupState state;
  const JsonValue* type = json.find("quant_type");
  if (const std::string* name = type == nullptr ? nullptr : type->as_string()) {
    state.type = *name;
  }
  state.block = member(json, "blocksize");
  state.nested_block = member(json, "nested_blocksize");
  state.nested_offset = number_of(json.find("nested_offset")).value_or(0.0);
  const JsonValue* shape = json.find("shape");
  const JsonValue::Array* sides = shape == nullptr ? nullptr : shape->as_array();
  if (sides != nullptr && sides->size() == 2) {
    const std::uint64_t* rows = (*sides)[0].as_unsigned();
    const std::uint64_t* cols = (*sides)[1].as_unsigned();
    constexpr auto kMax = static_cast<std::uint64_t>(kMaxSide);
    if (rows != nullptr && cols != nullptr && *rows <= kMax && *cols <= kMax) {
      state.rows = static_cast<std::int64_t>(*rows);
      state.cols = static_cast<std::int64_t>(*cols);
    }
  }
  return state;
}

void apply_lookup(Weight& weight, const LookupState& state) {
  const std::string name = state.type == "fp4" ? "FP4" : "NF4";
  if (state.type != "fp4" && state.type != "nf4") {
    weight.name_only("INT4/" + printable(state.type));
    return;
  }
  weight.logical.encoding = unsupported_encoding(
      state.block > 0 ? fmt::format("{}/g{}", name, state.block) : name, weight.codes().type);
  if (state.block < 1 || !set_sides(weight, state.rows, state.cols)) {
    weight.fail("quant_state: no usable shape and blocksize");
    return;
  }
  const std::int64_t blocks = ceil_divide(state.rows * state.cols, state.block);
  const StoredTensor* scale = weight.companion(Part::kScale);
  const bool nested = scale != nullptr && scale->type == ElementType::kU8;
  if (!expect_companion(weight, Part::kScale, ".absmax", blocks,
                        nested ? ElementType::kU8 : ElementType::kF32) ||
      !expect_companion(weight, Part::kTable, ".quant_map", 16, ElementType::kF32)) {
    return;
  }
  decode::Encoding encoding;
  encoding.scheme = decode::Scheme::kLookup4;
  encoding.type = ElementType::kU8;
  encoding.bits = 4;
  encoding.block_cols = static_cast<std::int32_t>(state.block);
  encoding.label = weight.logical.encoding.label;
  set_whole(encoding, state.rows, state.cols);
  if (nested) {
    if (state.nested_block < 1 || !std::isfinite(state.nested_offset)) {
      weight.fail("quant_state: no usable nested_blocksize and nested_offset");
      return;
    }
    encoding.nested_block = static_cast<std::int32_t>(state.nested_block);
    encoding.nested_offset = static_cast<float>(state.nested_offset);
    if (!expect_companion(weight, Part::kNestedScale, ".nested_absmax",
                          ceil_divide(blocks, state.nested_block), ElementType::kF32) ||
        !expect_companion(weight, Part::kNestedTable, ".nested_quant_map", 256,
                          ElementType::kF32)) {
      return;
    }
    weight.use(CompanionRole::kNestedScale, Part::kNestedScale);
    weight.use(CompanionRole::kNestedTable, Part::kNestedTable);
  }
  weight.logical.encoding = encoding;
  weight.use(CompanionRole::kScale, Part::kScale);
  weight.use(CompanionRole::kTable, Part::kTable);
}

/// HQQ's codes per unit, by the name of the packing or the number of bits; 0: not known.
std::int64_t hqq_planes(std::string_view packing, std::int64_t bits) {
  struct Row {
    std::string_view packing;
    std::int64_t bits, planes;
  };
  constexpr Row kRows[] = {{"8bit_u8", 8, 1},
                           {"4bit_u8", 4, 2},
                           {"3bit_32", 3, 10},
                           {"2bit_u8", 2, 4},
                           {"1bit_u8", 1, 8}};
  for (const Row& row : kRows) {
    const bool wide = row.bits == 8 && bits >= 5 && bits <= 8;
    if (packing.empty() ? row.bits == bits || wide : row.packing == packing) {
      return row.planes;
    }
  }
  return 0;
}

/// HQQ's `nbits`: an integer, or 1.58 for three values in two bits.
std::optional<std::int64_t> hqq_bits(const Weight& weight) {
  const std::int32_t tensor = weight.found[Part::kBits];
  if (const auto real = weight.values.real(tensor); real && std::abs(*real - 1.58F) < 1e-3F) {
    return 2;
  }
  return weight.values.number(tensor);
}

std::string scheme_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

void apply_bnb4(Weight& weight) {
  weight.forget_shape();
  weight.logical.encoding = unsupported_encoding("NF4", weight.codes().type);
  const std::span<const std::byte> bytes = weight.values.bytes(weight.found[Part::kState]);
  if (bytes.empty()) {
    weight.fail(weight.found[Part::kState] >= 0 ? "quant_state unreadable: no bytes"
                                                : "quant_state missing");
    return;
  }
  try {
    apply_lookup(weight, read_state(bytes));
  } catch (const FormatError& error) {
    weight.fail(fmt::format("quant_state unreadable: {}", error.what()));
  }
}

void apply_bnb8(Weight& weight) {
  weight.logical.encoding = unsupported_encoding("INT8/row", weight.codes().type);
  if (weight.codes().type != ElementType::kI8 || weight.codes().shape.size() != 2) {
    weight.codes_misshapen();
    return;
  }
  // 0: rows one after the other; the others are tiles of the GPU's.
  if (const auto format = weight.values.number(weight.found[Part::kFormat]);
      format.has_value() && *format != 0) {
    weight.name_only(fmt::format("INT8/weight_format {}", *format));
    return;
  }
  if (!expect_companion(weight, Part::kScale, ".SCB", weight.code_rows(), ElementType::kF32)) {
    return;
  }
  weight.logical.encoding.scheme = decode::Scheme::kBnbInt8;
  weight.use(CompanionRole::kScale, Part::kScale);
}

void apply_hqq(Weight& weight) {
  weight.forget_shape();
  weight.logical.encoding = unsupported_encoding("INT/hqq", weight.codes().type);
  const auto sides = weight.values.pair(weight.found[Part::kShape]);
  const auto bits = hqq_bits(weight);
  const auto axis = weight.values.number(weight.found[Part::kAxis]);
  if (!sides || !bits || !axis) {
    weight.fail("shape, nbits or axis missing");
    return;
  }
  if (!set_sides(weight, (*sides)[0], (*sides)[1]) || (*axis != 0 && *axis != 1)) {
    weight.fail("shape or axis unusable");
    return;
  }
  const auto [rows, cols] = *sides;
  const std::int64_t weights = rows * cols;
  // Without groups a scale serves a row (axis 1) or a column (axis 0).
  const std::int64_t group =
      weight.values.number(weight.found[Part::kGroupSize]).value_or(*axis == 1 ? cols : rows);
  if (*bits < 1 || *bits > 8 || group < 1 || group > kMaxSide || weights % group != 0) {
    weight.fail(
        fmt::format("nbits {} or group_size {} unusable for {}x{}", *bits, group, rows, cols));
    return;
  }
  weight.logical.encoding.label = fmt::format("INT{}/g{}/hqq", *bits, group);
  const std::string packing = scheme_text(weight.values.bytes(weight.found[Part::kPacking]));
  const std::int64_t planes = hqq_planes(packing, *bits);
  if (planes == 0) {
    weight.name_only(fmt::format("{}/{}", weight.logical.encoding.label, printable(packing)));
    return;
  }
  const std::int64_t groups = weights / group;
  const std::int64_t packed_rows = *axis == 1 ? groups : group;
  if (planes != 10 && packed_rows % planes != 0) {
    weight.codes_misshapen();
    return;
  }
  for (const auto& [part, suffix] :
       {std::pair(Part::kScale, ".scale"), {Part::kZeroPoint, ".zero"}}) {
    const StoredTensor* tensor = weight.companion(part);
    if (tensor == nullptr) {
      weight.missing(suffix);
      return;
    }
    if (!is_float_scale(tensor->type)) {
      weight.mistyped(*tensor);
      return;
    }
    if (element_count(*tensor) != groups) {
      weight.misshapen(*tensor, fmt::format("{} elements are needed", groups));
      return;
    }
  }
  decode::Encoding encoding;
  encoding.scheme = decode::Scheme::kHqq;
  encoding.type = planes == 10 ? ElementType::kI32 : ElementType::kU8;
  encoding.bits = static_cast<std::int32_t>(planes == 10 ? 3 : 8 / planes);
  encoding.block_cols = static_cast<std::int32_t>(group);
  encoding.scale_per_plane_col = *axis == 0;
  encoding.plane = ceil_divide(packed_rows, planes) * (weights / packed_rows);
  encoding.label = weight.logical.encoding.label;
  set_whole(encoding, rows, cols);
  weight.logical.encoding = encoding;
  weight.use(CompanionRole::kScale, Part::kScale);
  weight.use(CompanionRole::kZeroPoint, Part::kZeroPoint);
}

// BitNet packs four rows of ternary codes into one row of bytes.
void apply_ternary(Weight& weight) {
  weight.logical.encoding = unsupported_encoding("TERNARY", weight.codes().type);
  const StoredTensor* scale = weight.companion(Part::kScale);
  if (weight.codes().shape.size() != 2 || weight.code_rows() > kMaxSide / 4 ||
      weight.code_cols() > kMaxSide) {
    weight.forget_shape();
    weight.codes_misshapen();
    return;
  }
  const std::int64_t rows = weight.code_rows() * 4;
  const std::int64_t cols = weight.code_cols();
  weight.set_shape(rows, cols);
  if (!is_float_scale(scale->type)) {
    weight.mistyped(*scale);
    return;
  }
  decode::Encoding& encoding = weight.logical.encoding;
  encoding.scheme = decode::Scheme::kTernary;
  encoding.type = ElementType::kU8;
  encoding.bits = 2;
  encoding.plane = weight.code_rows() * cols;
  // transformers' BitLinear divides by the scale, its AutoBitLinear (bitnet-b1.58-2B) multiplies.
  encoding.global_divides = weight.claims.linear_class != "autobitlinear";
  set_whole(encoding, rows, cols);
  weight.use(CompanionRole::kScale, Part::kScale);
}

}  // namespace vindex::model
