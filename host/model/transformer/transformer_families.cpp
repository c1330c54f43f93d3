// Owns that table.
#include "transformer_families.hpp"

#include "transformer.hpp"

#include "core/text/text_parts.hpp"

#include <algorithm>
#include <span>
#include <string>

namespace vindex::model {

namespace {

constexpr TransformerFamily kHuggingFaceDecoders[] = {
    {.names = "llama"},
    {.names = "mistral", .windows = WindowRule::kEvery, .window = 4096},
    {.names = "ministral", .windows = WindowRule::kTyped, .window = 4096},
    {.names = "ministral3", .windows = WindowRule::kEvery, .growing = true, .norm_eps = 1e-5},
    {.names = "mixtral", .windows = WindowRule::kEvery, .norm_eps = 1e-5, .rope_base = 1e6},
    {.names = "qwen2",
     .windows = WindowRule::kAbove,
     .window = 4096,
     .window_switch = true,
     .biased = true},
    {.names = "qwen2_moe",
     .windows = WindowRule::kEvenBelow,
     .window = 4096,
     .window_switch = true,
     .biased = true,
     .shared_gate = true},
    {.names = "qwen3",
     .head_norms = HeadNorms::kEachHead,
     .windows = WindowRule::kAbove,
     .window = 4096,
     .window_switch = true},
    {.names = "qwen3_moe",
     .head_norms = HeadNorms::kEachHead,
     .windows = WindowRule::kEvery,
     .window = 4096,
     .window_switch = true},
    {.names = "gemma", .gating = Gating::kGeluTanh, .norm_offset = 1.0},
    {.names = "gemma2",
     .norms = LayerNorms::kAround,
     .gating = Gating::kGeluTanh,
     .windows = WindowRule::kAlternate,
     .window = 4096,
     .scale = ScoreScale::kQueryScalar,
     .norm_offset = 1.0,
     .attention_cap = 50.0,
     .logit_cap = 30.0,
     .attention_cap_key = true,
     .logit_cap_key = true},
    {.names = "gemma3_text gemma3",
     .norms = LayerNorms::kAround,
     .head_norms = HeadNorms::kEachHead,
     .gating = Gating::kGeluTanh,
     .windows = WindowRule::kSixths,
     .window = 4096,
     .scale = ScoreScale::kQueryScalar,
     .heads = 8,
     .norm_offset = 1.0,
     .rope_base = 1e6,
     .local_base = 10'000,
     .logit_cap_key = true},
    {.names = "phi3", .windows = WindowRule::kEvery, .partial_rope = true, .norm_eps = 1e-5},
    {.names = "deepseek_v2", .interleaved = true, .latent = true},
    {.names = "deepseek_v3 kimi_k2",
     .interleaved = true,
     .latent = true,
     .turn_key = true,
     .extra_layers = 1},
    {.names = "gpt_oss",
     .gating = Gating::kClamped,
     .windows = WindowRule::kAlternate,
     .window = 128,
     .sinks = true,
     .biased = true,
     .norm_eps = 1e-5,
     .rope_base = 150'000},
    {.names = "olmoe", .head_norms = HeadNorms::kAllHeads, .clip_key = true, .norm_eps = 1e-5},
    {.names = "olmo2",
     .norms = LayerNorms::kAfterPrevious,
     .head_norms = HeadNorms::kAllHeads,
     .norm_eps = 1e-5},
    {.names = "granite granitemoe", .scale = ScoreScale::kMultiplier},
};

// llama.cpp's converter reorders the rows of q and k of what turns neighbouring pairs here, and
// adds the offset of gemma's norms to their weights.
constexpr TransformerFamily kGgufDecoders[] = {
    {.names = "llama", .windows = WindowRule::kEvery, .interleaved = true},
    {.names = "mistral3", .windows = WindowRule::kEvery, .interleaved = true, .growing = true},
    {.names = "qwen2", .biased = true},
    {.names = "qwen2moe", .biased = true, .shared_gate = true},
    {.names = "qwen3 qwen3moe", .head_norms = HeadNorms::kEachHead},
    {.names = "gemma", .gating = Gating::kGeluTanh},
    {.names = "gemma2",
     .norms = LayerNorms::kAround,
     .gating = Gating::kGeluTanh,
     .windows = WindowRule::kAlternate,
     .window = 4096,
     .scale = ScoreScale::kQueryScalar,
     .attention_cap = 50.0,
     .logit_cap = 30.0,
     .attention_cap_key = true,
     .logit_cap_key = true,
     .wide_head_layers = 46},
    {.names = "gemma3",
     .norms = LayerNorms::kAround,
     .head_norms = HeadNorms::kEachHead,
     .gating = Gating::kGeluTanh,
     .windows = WindowRule::kSixths,
     .scale = ScoreScale::kQueryScalar,
     .rope_base = 1e6,
     .local_base = 10'000,
     .logit_cap_key = true,
     .wide_head_layers = 62},
    {.names = "phi3", .windows = WindowRule::kEvery},
    {.names = "deepseek2", .interleaved = true, .latent = true},
    {.names = "gpt_oss",
     .gating = Gating::kClamped,
     .windows = WindowRule::kAlternate,
     .sinks = true,
     .biased = true,
     .ffn_norm = "post_attention_norm"},
    {.names = "olmoe", .head_norms = HeadNorms::kAllHeads},
    {.names = "olmo2", .norms = LayerNorms::kAfterPrevious, .head_norms = HeadNorms::kAllHeads},
    {.names = "granite granitemoe", .scale = ScoreScale::kMultiplier, .interleaved = true},
};

std::span<const TransformerFamily> decoders(Dialect dialect) {
  return dialect == Dialect::kGguf ? std::span<const TransformerFamily>(kGgufDecoders)
                                   : std::span<const TransformerFamily>(kHuggingFaceDecoders);
}

}  // namespace

const TransformerFamily* transformer_family(Dialect dialect, std::string_view architecture) {
  std::string name(architecture);
  std::replace(name.begin(), name.end(), '-', '_');
  for (const TransformerFamily& family : decoders(dialect)) {
    for (const std::string_view each : split(family.names, ' ')) {
      if (each == name) {
        return &family;
      }
    }
  }
  return nullptr;
}

std::vector<std::string> traced_families(bool gguf) {
  std::vector<std::string> names;
  for (const TransformerFamily& family : decoders(gguf ? Dialect::kGguf : Dialect::kHuggingFace)) {
    for (const std::string_view each : split(family.names, ' ')) {
      names.emplace_back(gguf && each == "gpt_oss" ? "gpt-oss" : each);
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace vindex::model
