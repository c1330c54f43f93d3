// Owns that table.
#include "router_families.hpp"

#include "core/text/text_parts.hpp"

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
    {"mixtral minimax minimax_text_01 gpt_oss granitemoe granitemoeshared granitemoehybrid "
     "hunyuan_v1_moe qwen3_5_moe qwen3_5_moe_text qwen3_vl_moe qwen3_vl_moe_text",
     kSoftmax, kAlways, false, false, false, 1.0, 0.0, true},
    {"qwen2_moe qwen3_moe olmoe flex_olmo deepseek", kSoftmax, kKeyElseNo, false, false, false, 1.0,
     0.0, true},
    {"qwen3_next bailing_moe dbrx", kSoftmax, kKeyElseYes},
    {"jamba", kSoftmax, kNever},
    {"llama4 llama4_text", kSigmoid, kNever},
    {"ernie4_5_moe ernie4_5_vl_moe", kSoftmax, kAlways, true},
    {"longcat_flash", kSoftmax, kNever, true, false, false, 6.0},
    {"minimax_m2", kSigmoid, kAlways, true},
    {"lfm2_moe", kSigmoid, kKeyElseYes, true, false, false, 1.0, 1e-6},
    {"afmoe", kSigmoid, kAlways, true, false, false, 1.0, kDeepSeekOffset},
    {"mistral4", kSoftmax, kKeyElseYes, false, true, false, 1.0, kDeepSeekOffset},
    {"deepseek_v2 deepseek_vl_v2", kSoftmax, kKeyElseNo, false, true, true},
    {"deepseek_v3 deepseek_v32 kimi_k2 kimi_k25 kimi_k2_5 kimi_vl", kSigmoid, kKeyElseYes, true,
     true, true, 2.5, kDeepSeekOffset},
    {"deepseek_v4", kSqrtSoftplus, kAlways, true, false, false, 1.5, kDeepSeekOffset},
    {"kimi_linear", kSigmoid, kKeyElseYes, true, true, false, 2.446, kDeepSeekOffset},
    {"glm4_moe glm4v_moe glm4_moe_lite glm_moe_dsa nemotron_h solar_open", kSigmoid, kKeyElseYes,
     true, true, false, 1.0, kDeepSeekOffset},
    {"dots1", kSigmoid, kKeyElseNo, true, true, false, 1.0, kDeepSeekOffset},
    {"bailing_moe_v2 exaone_moe", kSigmoid, kKeyElseYes, true, true, false, 2.5, kDeepSeekOffset},
};

// expert_gating_func outranks the scoring here, expert_weights_norm and expert_weights_scale what
// follows from keys.
constexpr RouterFamily kGguf[] = {
    {"llama grok dbrx arctic granite granitemoe granitehybrid gpt_oss hunyuan_moe qwen3moe "
     "qwen3next qwen3vlmoe qwen35moe"},
    {"qwen2moe olmoe jamba llada_moe deepseek", kSoftmax, kNever},
    {"llama4", kSigmoid, kNever},
    {"bailingmoe", kSoftmax, kKeyElseNo},
    {"ernie4_5_moe", kSoftmax, kAlways, true},
    {"minimax_m2 lfm2moe", kSigmoid, kAlways, true},
    {"afmoe", kSigmoid, kKeyElseYes, true, false, false, 1.0, kDeepSeekOffset},
    {"deepseek2", kSoftmax, kKeyElseNo, true, true, false, 1.0, kDeepSeekOffset},
    {"deepseek32 glm4moe glm_dsa dots1 bailingmoe2 kimi_linear exaone_moe nemotron_h_moe", kSigmoid,
     kKeyElseNo, true, true, false, 1.0, kDeepSeekOffset},
    {"deepseek4", kSqrtSoftplus, kKeyElseNo, true, false, false, 1.0, kDeepSeekOffset},
};
// NOLINTEND(modernize-use-designated-initializers)

}  // namespace

std::optional<RouterFamily> router_family(Dialect dialect, std::string_view architecture) {
  std::string name(architecture);
  std::replace(name.begin(), name.end(), '-', '_');
  const std::span<const RouterFamily> families = dialect == Dialect::kGguf
                                                     ? std::span<const RouterFamily>(kGguf)
                                                     : std::span<const RouterFamily>(kHuggingFace);
  for (RouterFamily family : families) {
    for (const std::string_view each : split(family.architecture, ' ')) {
      if (each == name) {
        family.architecture = each;
        return family;
      }
    }
  }
  return std::nullopt;
}

}  // namespace vindex::model
