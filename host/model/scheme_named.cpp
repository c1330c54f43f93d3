// Owns the schemes that are recognised and named but not decoded yet: their companions are not
// taken for matrices, their logical shapes are told where the files say them.
#include "weight.hpp"

#include <vindex/core/error.hpp>
#include <vindex/core/json.hpp>

#include <fmt/format.h>

namespace vindex::model {

using decode::ElementType;
using shard::StoredTensor;

namespace {

/// A vector's two sides as a logical shape, where they are sides at all.
bool set_sides(Weight& weight, std::int64_t rows, std::int64_t cols) {
  if (rows < 1 || cols < 1 || rows > kMostSide || cols > kMostSide) {
    return false;
  }
  weight.logical.shape = {rows, cols};
  weight.logical.shape_known = true;
  return true;
}

std::int64_t member(const JsonValue& object, std::string_view key) {
  const JsonValue* value = object.find(key);
  const std::uint64_t* number = value == nullptr ? nullptr : value->as_unsigned();
  return number == nullptr || *number > static_cast<std::uint64_t>(kMostSide)
             ? 0
             : static_cast<std::int64_t>(*number);
}

}  // namespace

// GPTQ packs the inputs of transposed codes [inputs * bits / 32, outputs]; AWQ packs the outputs
// [inputs, outputs * bits / 32]. The scales [groups, outputs] tell which.
void apply_gptq_or_awq(Weight& weight) {
  const StoredTensor& codes = weight.codes();
  const StoredTensor* scales = weight.companion(Part::kScale);
  weight.forget_shape();
  const auto in_bounds = [](const StoredTensor& tensor) {
    return tensor.shape.size() == 2 && tensor.shape[0] > 0 && tensor.shape[1] > 0 &&
           tensor.shape[0] < kMostSide && tensor.shape[1] < kMostSide;
  };
  if (scales == nullptr || !in_bounds(codes) || !in_bounds(*scales)) {
    weight.name_only("INT/gptq");
    return;
  }
  const std::int64_t outputs = scales->shape[1];
  const bool gptq = outputs == codes.shape[1];
  // Words of 32 bits that hold one code of every output.
  std::int64_t words = codes.shape[1];
  if (gptq) {
    const StoredTensor* zeros = weight.companion(Part::kZeroPoint);
    words = zeros != nullptr && in_bounds(*zeros) ? zeros->shape[1] : 0;
  }
  std::int64_t bits = words * 32 % outputs == 0 ? words * 32 / outputs : 0;
  if (bits == 0) {
    bits = weight.claims.bits;
  }
  if (bits < 1 || bits > 8) {
    weight.name_only(gptq ? "INT/gptq" : "INT/awq");
    return;
  }
  const std::int64_t inputs = gptq ? codes.shape[0] * 32 / bits : codes.shape[0];
  set_sides(weight, outputs, inputs);
  weight.name_only(fmt::format("INT{}/g{}/{}", bits, ceil_divide(inputs, scales->shape[0]),
                               gptq ? "gptq" : "awq"));
}

void apply_fp4_pairs(Weight& weight, std::string label) {
  if (weight.is_matrix_or_stack() && weight.code_cols() < kMostSide) {
    weight.set_shape(weight.code_rows(), weight.code_cols() * 2);
  } else {
    weight.forget_shape();
  }
  weight.name_only(std::move(label));
}

void apply_blocks(Weight& weight) {
  const std::vector<std::int64_t>& shape = weight.codes().shape;
  if ((shape.size() == 4 || shape.size() == 3) && shape.back() == 16 &&
      shape[shape.size() - 2] < kMostSide) {
    weight.logical.shape.assign(shape.begin(), shape.end() - 1);
    weight.logical.shape.back() *= 32;
  } else {
    weight.forget_shape();
  }
  weight.name_only("MXFP4");
}

// The codes are flat; quant_state is JSON: {"quant_type", "blocksize", "shape", ...}.
void apply_bnb4(Weight& weight) {
  weight.forget_shape();
  const std::span<const std::byte> bytes = weight.values.bytes(weight.found[Part::kState]);
  std::string label = "NF4";
  if (!bytes.empty()) {
    try {
      const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      const JsonValue state = parse_json(text, "quant_state", JsonLimits{});
      const JsonValue* type = state.find("quant_type");
      const std::string* name = type == nullptr ? nullptr : type->as_string();
      label = name != nullptr && *name == "fp4" ? "FP4" : "NF4";
      if (const std::int64_t group = member(state, "blocksize"); group > 0) {
        label += fmt::format("/g{}", group);
      }
      const JsonValue* shape = state.find("shape");
      const JsonValue::Array* sides = shape == nullptr ? nullptr : shape->as_array();
      if (sides != nullptr && sides->size() == 2 && (*sides)[0].as_unsigned() != nullptr &&
          (*sides)[1].as_unsigned() != nullptr) {
        set_sides(weight, static_cast<std::int64_t>(*(*sides)[0].as_unsigned()),
                  static_cast<std::int64_t>(*(*sides)[1].as_unsigned()));
      }
    } catch (const FormatError& error) {
      weight.fail(fmt::format("quant_state unreadable: {}", error.what()));
    }
  }
  weight.name_only(std::move(label));
}

void apply_hqq(Weight& weight) {
  weight.forget_shape();
  if (const auto sides = weight.values.pair(weight.found[Part::kShape])) {
    set_sides(weight, (*sides)[0], (*sides)[1]);
  }
  const std::int64_t bits = weight.values.number(weight.found[Part::kBits]).value_or(0);
  const std::int64_t group = weight.values.number(weight.found[Part::kGroupSize]).value_or(0);
  weight.name_only(bits >= 1 && bits <= 8 && group >= 1 ? fmt::format("INT{}/g{}/hqq", bits, group)
                                                        : std::string("INT/hqq"));
}

// Codes U32 [out, in * bits / 32], scales [out, in / group]: the width comes from the claim alone.
void apply_mlx(Weight& weight) {
  const StoredTensor* scales = weight.companion(Part::kScale);
  const std::int32_t bits = weight.claims.bits;
  const std::int64_t words = weight.code_cols();
  weight.forget_shape();
  if (scales == nullptr || scales->shape.empty() || scales->shape.back() < 1 || bits < 1 ||
      bits > 8 || words > kMostSide / 32 || !weight.is_matrix_or_stack()) {
    weight.name_only("INT/mlx");
    return;
  }
  const std::int64_t cols = words * 32 / bits;
  weight.set_shape(weight.code_rows(), cols);
  weight.name_only(fmt::format("INT{}/g{}/asym", bits, ceil_divide(cols, scales->shape.back())));
}

}  // namespace vindex::model
