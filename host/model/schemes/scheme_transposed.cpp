// Owns GPTQ and AWQ. GPTQ packs the inputs of transposed codes [inputs * bits / 32, outputs]; AWQ
// packs the outputs [inputs, outputs * bits / 32]. The scales [groups, outputs] tell which; layouts
// that differ are refused by the name that the configuration gives them.
#include "weight.hpp"

#include "decode/encoding_table.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

namespace vindex::model {

using decode::CompanionRole;
using decode::ElementType;
using input::StoredTensor;

namespace {

bool in_bounds(const StoredTensor& tensor) {
  return tensor.shape.size() == 2 && tensor.shape[0] > 0 && tensor.shape[1] > 0 &&
         tensor.shape[0] < kMaxSide / 32 && tensor.shape[1] < kMaxSide / 32;
}

/// auto-round's own layout: GPTQ's, zero points as they are.
bool is_auto_round(const std::string& packing) {
  return packing == "auto_round" || packing == "auto_round:gptqmodel";
}

/// Columns per scale, or 0 where `groups` rows of scales fit no size.
std::int64_t group_of_transposed(const QuantClaims& claims, std::int64_t inputs,
                                 std::int64_t groups) {
  if (claims.group > 0 && ceil_divide(inputs, claims.group) == groups) {
    return claims.group;
  }
  return inputs % groups == 0 ? inputs / groups : 0;
}

/// Bits of a code by the zero points, whose words hold one of every output; 0: none.
std::int64_t bits_of(const StoredTensor& zeros, std::int64_t outputs) {
  const std::int64_t bits = zeros.shape[1] * 32;
  return bits % outputs == 0 && bits / outputs <= 8 ? bits / outputs : 0;
}

}  // namespace

std::string refused_layout(const QuantClaims& claims, bool gptq) {
  // auto-round says its layout as "auto_round:auto_gptq".
  const std::string& packing = claims.packing_format;
  if (!packing.empty() && !is_auto_round(packing) &&
      packing.find("auto_gptq") == std::string::npos &&
      packing.find("auto_awq") == std::string::npos) {
    return packing;
  }
  const std::string& format = claims.checkpoint_format;
  if (!format.empty() && format != "gptq" && format != "gptq_v2" && format != "gemm") {
    return format;
  }
  if (claims.marlin) {
    return "marlin";
  }
  if (claims.backend == "llm-awq") {
    return claims.backend;
  }
  return !gptq && !claims.version.empty() && claims.version != "gemm" ? claims.version : "";
}

void apply_gptq_or_awq(Weight& weight) {
  const StoredTensor& codes = weight.codes();
  const StoredTensor* scales = weight.companion(Part::kScale);
  const StoredTensor* zeros = weight.companion(Part::kZeroPoint);
  weight.forget_shape();
  const bool awq_claimed = weight.claims.method == "awq" ||
                           weight.claims.packing_format.find("awq") != std::string::npos;
  weight.logical.encoding = unsupported_encoding(awq_claimed ? "INT/awq" : "INT/gptq", codes.type);
  // Before the tensors are looked at: other layouts may lack some of them.
  if (const std::string layout = refused_layout(weight.claims, !awq_claimed); !layout.empty()) {
    weight.name_only(fmt::format("INT/{}", printable(layout)));
    return;
  }
  if (scales == nullptr || zeros == nullptr) {
    weight.missing(scales == nullptr ? ".scales" : ".qzeros");
    return;
  }
  if (!in_bounds(codes) || !in_bounds(*scales) || !in_bounds(*zeros)) {
    weight.codes_misshapen();
    return;
  }
  const std::int64_t outputs = scales->shape[1];
  const std::int64_t groups = scales->shape[0];
  const bool gptq = !awq_claimed && outputs == codes.shape[1];
  if (const std::string layout = refused_layout(weight.claims, gptq); !layout.empty()) {
    weight.name_only(fmt::format("INT/{}", printable(layout)));
    return;
  }
  const std::int64_t bits = bits_of(*zeros, outputs);
  if (bits == 0 || zeros->shape[0] != groups) {
    weight.misshapen(*zeros,
                     fmt::format("{} groups of {} zero points are needed", groups, outputs));
    return;
  }
  const std::int64_t inputs = gptq ? codes.shape[0] * 32 / bits : codes.shape[0];
  const std::int64_t group = group_of_transposed(weight.claims, inputs, groups);
  weight.logical.encoding.label =
      fmt::format("INT{}/g{}/{}", bits, ceil_divide(inputs, groups), gptq ? "gptq" : "awq");
  if (gptq ? codes.shape[0] * 32 % bits != 0 || codes.shape[1] != outputs
           : codes.shape[1] * 32 != outputs * bits) {
    weight.codes_misshapen();
    return;
  }
  weight.logical.shape = {outputs, inputs};
  weight.logical.shape_known = true;
  if (group == 0) {
    weight.misshapen(*scales, fmt::format("equal groups of {} inputs are needed", inputs));
    return;
  }
  if (!is_float_scale(scales->type)) {
    weight.mistyped(*scales);
    return;
  }
  if (codes.type != ElementType::kI32 || zeros->type != ElementType::kI32) {
    weight.mistyped(codes.type == ElementType::kI32 ? *zeros : codes);
    return;
  }
  if (gptq) {
    if (const StoredTensor* index = weight.companion(Part::kGroupIndex)) {
      if (index->shape != std::vector<std::int64_t>{inputs}) {
        weight.misshapen(*index, fmt::format("{} group indices are needed", inputs));
        return;
      }
      if (index->type != ElementType::kI32) {
        weight.mistyped(*index);
        return;
      }
      weight.use(CompanionRole::kGroupIndex, Part::kGroupIndex);
    } else if (weight.claims.activation_order && groups > 1) {
      weight.fail("group indices missing: the configuration says desc_act");
      return;
    }
  }
  decode::Encoding encoding;
  encoding.scheme = gptq ? decode::Scheme::kGptq : decode::Scheme::kAwq;
  encoding.type = ElementType::kI32;
  encoding.bits = static_cast<std::int32_t>(bits);
  encoding.block_cols = static_cast<std::int32_t>(group);
  encoding.zero_less_one = gptq && weight.claims.checkpoint_format != "gptq_v2" &&
                           !is_auto_round(weight.claims.packing_format);
  encoding.zero_carries = encoding.zero_less_one && weight.claims.gptqmodel;
  encoding.label = fmt::format("INT{}/g{}/{}", bits, group, gptq ? "gptq" : "awq");
  if (!decode::is_decodable(encoding)) {
    weight.name_only(encoding.label);
    return;
  }
  weight.logical.encoding = encoding;
  weight.use(CompanionRole::kScale, Part::kScale);
  weight.use(CompanionRole::kZeroPoint, Part::kZeroPoint);
}

}  // namespace vindex::model
