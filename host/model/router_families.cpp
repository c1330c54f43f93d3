// Owns that table.
#include "router_families.hpp"

#include <algorithm>
#include <span>
#include <string>

namespace vindex::model {

namespace {

using enum Normalised;
using enum RouterScoring;

constexpr double kDeepSeekOffset = 1e-20;

// NOLINTBEGIN(modernize-use-designated-initializers): a table
constexpr RouterFamily kHuggingFace[] = {
    {"mixtral"},
    {"minimax"},
    {"minimax_text_01"},
    {"gpt_oss"},
    {"granitemoe"},
    {"granitemoeshared"},
    {"granitemoehybrid"},
    {"hunyuan_v1_moe"},
    {"qwen3_5_moe"},
    {"qwen3_5_moe_text"},
    {"qwen3_vl_moe"},
    {"qwen3_vl_moe_text"},
    {"qwen2_moe", kSoftmax, kKeyElseNo},
    {"qwen3_moe", kSoftmax, kKeyElseNo},
    {"qwen3_next", kSoftmax, kKeyElseYes},
    {"olmoe", kSoftmax, kKeyElseNo},
    {"flex_olmo", kSoftmax, kKeyElseNo},
    {"bailing_moe", kSoftmax, kKeyElseYes},
    {"deepseek", kSoftmax, kKeyElseNo},
    {"jamba", kSoftmax, kNever},
    {"dbrx", kSoftmax, kKeyElseYes},
    {"llama4", kSigmoid, kNever},
    {"llama4_text", kSigmoid, kNever},
    {"ernie4_5_moe", kSoftmax, kAlways, true},
    {"ernie4_5_vl_moe", kSoftmax, kAlways, true},
    {"longcat_flash", kSoftmax, kNever, true, false, false, 6.0},
    {"minimax_m2", kSigmoid, kAlways, true},
    {"lfm2_moe", kSigmoid, kKeyElseYes, true, false, false, 1.0, 1e-6},
    {"afmoe", kSigmoid, kAlways, true, false, false, 1.0, kDeepSeekOffset},
    {"mistral4", kSoftmax, kKeyElseYes, false, true, false, 1.0, kDeepSeekOffset},
    {"deepseek_v2", kSoftmax, kKeyElseNo, false, true, true},
    {"deepseek_vl_v2", kSoftmax, kKeyElseNo, false, true, true},
    {"deepseek_v3", kSigmoid, kKeyElseYes, true, true, true, 2.5, kDeepSeekOffset},
    {"deepseek_v32", kSigmoid, kKeyElseYes, true, true, true, 2.5, kDeepSeekOffset},
    {"deepseek_v4", kSqrtSoftplus, kAlways, true, false, false, 1.5, kDeepSeekOffset},
    {"kimi_k2", kSigmoid, kKeyElseYes, true, true, true, 2.5, kDeepSeekOffset},
    {"kimi_k25", kSigmoid, kKeyElseYes, true, true, true, 2.5, kDeepSeekOffset},
    {"kimi_k2_5", kSigmoid, kKeyElseYes, true, true, true, 2.5, kDeepSeekOffset},
    {"kimi_vl", kSigmoid, kKeyElseYes, true, true, true, 2.5, kDeepSeekOffset},
    {"kimi_linear", kSigmoid, kKeyElseYes, true, true, false, 2.446, kDeepSeekOffset},
    {"glm4_moe", kSigmoid, kKeyElseYes, true, true, false, 1.0, kDeepSeekOffset},
    {"glm4v_moe", kSigmoid, kKeyElseYes, true, true, false, 1.0, kDeepSeekOffset},
    {"glm4_moe_lite", kSigmoid, kKeyElseYes, true, true, false, 1.0, kDeepSeekOffset},
    {"glm_moe_dsa", kSigmoid, kKeyElseYes, true, true, false, 1.0, kDeepSeekOffset},
    {"dots1", kSigmoid, kKeyElseNo, true, true, false, 1.0, kDeepSeekOffset},
    {"bailing_moe_v2", kSigmoid, kKeyElseYes, true, true, false, 2.5, kDeepSeekOffset},
    {"exaone_moe", kSigmoid, kKeyElseYes, true, true, false, 2.5, kDeepSeekOffset},
    {"nemotron_h", kSigmoid, kKeyElseYes, true, true, false, 1.0, kDeepSeekOffset},
    {"solar_open", kSigmoid, kKeyElseYes, true, true, false, 1.0, kDeepSeekOffset},
};

// expert_gating_func outranks the scoring here, expert_weights_norm and expert_weights_scale what
// follows from keys.
constexpr RouterFamily kGguf[] = {
    {"llama"},
    {"grok"},
    {"dbrx"},
    {"arctic"},
    {"granite"},
    {"granitemoe"},
    {"granitehybrid"},
    {"gpt_oss"},
    {"hunyuan_moe"},
    {"qwen3moe"},
    {"qwen3next"},
    {"qwen3vlmoe"},
    {"qwen35moe"},
    {"qwen2moe", kSoftmax, kNever},
    {"olmoe", kSoftmax, kNever},
    {"jamba", kSoftmax, kNever},
    {"llada_moe", kSoftmax, kNever},
    {"deepseek", kSoftmax, kNever},
    {"llama4", kSigmoid, kNever},
    {"bailingmoe", kSoftmax, kKeyElseNo},
    {"ernie4_5_moe", kSoftmax, kAlways, true},
    {"minimax_m2", kSigmoid, kAlways, true},
    {"lfm2moe", kSigmoid, kAlways, true},
    {"afmoe", kSigmoid, kKeyElseYes, true, false, false, 1.0, kDeepSeekOffset},
    {"deepseek2", kSoftmax, kKeyElseNo, true, true, false, 1.0, kDeepSeekOffset},
    {"deepseek32", kSigmoid, kKeyElseNo, true, true, false, 1.0, kDeepSeekOffset},
    {"deepseek4", kSqrtSoftplus, kKeyElseNo, true, false, false, 1.0, kDeepSeekOffset},
    {"glm4moe", kSigmoid, kKeyElseNo, true, true, false, 1.0, kDeepSeekOffset},
    {"glm_dsa", kSigmoid, kKeyElseNo, true, true, false, 1.0, kDeepSeekOffset},
    {"dots1", kSigmoid, kKeyElseNo, true, true, false, 1.0, kDeepSeekOffset},
    {"bailingmoe2", kSigmoid, kKeyElseNo, true, true, false, 1.0, kDeepSeekOffset},
    {"kimi_linear", kSigmoid, kKeyElseNo, true, true, false, 1.0, kDeepSeekOffset},
    {"exaone_moe", kSigmoid, kKeyElseNo, true, true, false, 1.0, kDeepSeekOffset},
    {"nemotron_h_moe", kSigmoid, kKeyElseNo, true, true, false, 1.0, kDeepSeekOffset},
};
// NOLINTEND(modernize-use-designated-initializers)

}  // namespace

const RouterFamily* router_family(Dialect dialect, std::string_view architecture) {
  std::string name(architecture);
  std::replace(name.begin(), name.end(), '-', '_');
  const std::span<const RouterFamily> families = dialect == Dialect::kGguf
                                                     ? std::span<const RouterFamily>(kGguf)
                                                     : std::span<const RouterFamily>(kHuggingFace);
  const auto found =
      std::find_if(families.begin(), families.end(),
                   [&](const RouterFamily& family) { return family.architecture == name; });
  return found == families.end() ? nullptr : &*found;
}

}  // namespace vindex::model
