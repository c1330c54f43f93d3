// Owns the rules of names, in their order, and names of classes.
#include "organ_class.hpp"

#include "core/text/text_parts.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <vector>

namespace vindex::organ {
namespace {

constexpr std::array<std::string_view, kOrganClasses> kClassNames = {
    "adapter", "norm", "embed", "router", "organ", "skeleton", "other"};

/// A name cut at its dots.
using Parts = std::vector<std::string_view>;

template <typename Condition>
bool any(const Parts& parts, Condition holds) {
  return std::any_of(parts.begin(), parts.end(), holds);
}

bool is_one_of(std::string_view part, std::span<const std::string_view> list) {
  return std::find(list.begin(), list.end(), part) != list.end();
}

bool starts_with_one_of(std::string_view part, std::span<const std::string_view> list) {
  return std::any_of(list.begin(), list.end(),
                     [part](std::string_view start) { return part.starts_with(start); });
}

bool is_adapter(std::string_view part) {
  return part.starts_with("lora_") || part == "loraA" || part == "loraB" ||
         part.ends_with("_lora_a") || part.ends_with("_lora_b");
}

/// Also ln_1 of GPT-2, hnorm of a next-token block, input_layernorm.
bool is_norm(std::string_view part) {
  constexpr std::string_view kExact[] = {"ln_1", "ln_2", "ln_f", "ln1", "ln2"};
  return is_one_of(part, kExact) || part.ends_with("norm") || part.ends_with("LayerNorm") ||
         part.starts_with("norm") || part.find("_norm_") != std::string_view::npos ||
         part.ends_with("_ln");
}

bool is_embed(const Parts& parts) {
  static const Parts anywhere = split(
      "token_embd position_embd token_types lm_head wte wpe word_embeddings embed_tokens embed_in "
      "embed_out embed_positions tok_embeddings position_embeddings token_type_embeddings "
      "shared_head_head",
      ' ');
  // Within a block these would be something else.
  constexpr std::string_view kFirst[] = {"output", "score", "cls"};
  return any(parts,
             [&](std::string_view part) {
               return is_one_of(part, anywhere) || part.starts_with("per_layer_");
             }) ||
         is_one_of(parts.front(), kFirst) || parts.front().starts_with("cls_");
}

bool is_router(const Parts& parts) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string_view part = parts[i];
    if (part.starts_with("ffn_gate_inp") || part.starts_with("exp_probs_b") || part == "router" ||
        part == "e_score_correction_bias" || part == "shared_expert_gate") {
      return true;
    }
    // Hugging Face: mlp.gate.weight routes, mlp.gate_proj.weight computes.
    const bool last = i + 1 == parts.size() || i + 2 == parts.size();
    if (part == "gate" && last && i > 0 &&
        (parts[i - 1] == "mlp" || parts[i - 1] == "block_sparse_moe" || parts[i - 1] == "ffn" ||
         parts[i - 1] == "feed_forward" || parts[i - 1] == "moe")) {
      return true;
    }
  }
  return false;
}

bool is_organ(std::string_view part) {
  constexpr std::string_view kExact[] = {
      "mlp", "feed_forward", "block_sparse_moe", "moe",       "experts",        "fc1",
      "fc2", "gate_proj",    "up_proj",          "down_proj", "shared_experts", "shared_expert"};
  return part.starts_with("ffn_") || part.starts_with("channel_mix") || is_one_of(part, kExact);
}

bool is_skeleton(std::string_view part) {
  constexpr std::string_view kExact[] = {"self_attn", "attn",        "attention", "self_attention",
                                         "mixer",     "q_proj",      "k_proj",    "v_proj",
                                         "o_proj",    "linear_attn", "cross_attn"};
  constexpr std::string_view kStarts[] = {"attn_",     "ssm_",        "time_mix",
                                          "shortconv", "cross_attn_", "indexer"};
  return is_one_of(part, kExact) || starts_with_one_of(part, kStarts);
}

OrganClass class_of(const Parts& parts) {
  if (any(parts, is_adapter)) {
    return OrganClass::kAdapter;
  }
  if (any(parts, is_norm)) {
    return OrganClass::kNorm;
  }
  if (is_embed(parts)) {
    return OrganClass::kEmbed;
  }
  if (is_router(parts)) {
    return OrganClass::kRouter;
  }
  if (any(parts, [](std::string_view part) { return part.starts_with("rope_"); })) {
    return OrganClass::kOther;  // rope_freqs, rope_factors_*
  }
  if (any(parts, is_organ)) {
    return OrganClass::kOrgan;
  }
  return any(parts, is_skeleton) ? OrganClass::kSkeleton : OrganClass::kOther;
}

/// Which part is a block's number: the one behind blk, layers, h, blocks, ...
std::optional<std::size_t> block_part(const Parts& parts) {
  constexpr std::string_view kBefore[] = {"blk", "layers", "h", "blocks", "layer", "block"};
  for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
    const std::string_view digits = parts[i + 1];
    if (is_one_of(parts[i], kBefore) && !digits.empty() && digits.size() <= 6 &&
        digits.find_first_not_of("0123456789") == std::string_view::npos) {
      return i + 1;
    }
  }
  return std::nullopt;
}

}  // namespace

OrganName classify(std::string_view tensor_name) {
  const Parts parts = split(tensor_name, '.');
  OrganName name;
  name.organ_class = class_of(parts);
  const std::string_view last = parts.back();
  name.is_bias = last == "bias" || last.ends_with("_bias");
  if (const auto at = block_part(parts)) {
    name.block = *whole_number<std::int32_t>(parts[*at]);
  }
  return name;
}

std::string_view class_name(OrganClass organ_class) {
  return kClassNames.at(static_cast<std::size_t>(organ_class));
}

std::string_view class_folder(OrganClass organ_class) {
  return organ_class == OrganClass::kOrgan ? "organs" : class_name(organ_class);
}

std::set<OrganClass> parse_classes(std::string_view list) {
  std::set<OrganClass> classes;
  const bool all = list.empty() || list == "all";
  for (std::size_t i = 0; all && i < kOrganClasses; ++i) {
    classes.insert(static_cast<OrganClass>(i));
  }
  for (const std::string_view part : all ? Parts() : split(list, ',')) {
    const auto found = std::find(kClassNames.begin(), kClassNames.end(), part);
    if (part == "ffn") {
      classes.insert(OrganClass::kOrgan);
    } else if (found == kClassNames.end()) {
      throw UsageError("E-ORGAN-TYPE",
                       fmt::format("--type: '{}' is not a class; they are {}, ffn (organ without "
                                   "router) and all",
                                   printable(std::string(part)), fmt::join(kClassNames, ", ")));
    } else {
      classes.insert(static_cast<OrganClass>(found - kClassNames.begin()));
      if (part == "organ") {
        classes.insert(OrganClass::kRouter);
      }
    }
  }
  return classes;
}

std::string with_block(std::string_view name, std::int32_t block) {
  const Parts parts = split(name, '.');
  const auto at = block_part(parts);
  if (!at) {
    return std::string(name);
  }
  const std::string_view digits = parts[*at];
  const auto before = static_cast<std::size_t>(digits.data() - name.data());
  return fmt::format("{}{}{}", name.substr(0, before), block, name.substr(before + digits.size()));
}

}  // namespace vindex::organ
