// Owns the scan of a name, component by component.
#include "tensor_name.hpp"

#include "core/text/text_parts.hpp"

#include <algorithm>
#include <span>
#include <vector>

namespace vindex::model {

namespace {

// Wrappers around the language model that say nothing about a tensor.
constexpr std::array<std::string_view, 10> kPrefixes = {
    "model", "language_model", "transformer", "backbone", "gpt_neox", "text_model",
    "llm",   "decoder",        "base_model",  "thinker"};

// First components of what is not the language model.
const std::vector<std::string_view>& towers() {
  static const auto names = split(
      "vision_tower vision_model visual vision vision_encoder vision_embed_tokens image_encoder "
      "vit audio_tower audio_model audio_encoder audio mm_projector multi_modal_projector "
      "multimodal_projector mm_soft_emb_norm connector projector aligner embed_vision embed_audio "
      "embed_image talker token2wav code2wav patch_merger",
      ' ');
  return names;
}
constexpr std::array<std::string_view, 4> kGgufTowers = {"v", "mm", "a", "resampler"};

constexpr std::array<std::string_view, 4> kLayerWords = {"layers", "blk", "blocks", "h"};

bool contains(std::span<const std::string_view> set, std::string_view word) {
  return std::find(set.begin(), set.end(), word) != set.end();
}

std::string_view first_component(std::string_view text) { return text.substr(0, text.find('.')); }

}  // namespace

std::int32_t small_number(std::string_view text) {
  if (text.empty() || text.size() > 9) {
    return -1;
  }
  std::int32_t value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') {
      return -1;
    }
    value = value * 10 + (c - '0');
  }
  return value;
}

void read_tensor_name(std::string_view name, Dialect dialect, TensorName& out) {
  out.key.clear();
  out.layer = -1;
  out.expert = -1;
  out.number_count = 0;
  out.bias = false;
  out.tower = false;

  std::string_view rest = name;
  if (rest.ends_with(".weight")) {
    rest.remove_suffix(7);
  }
  const std::size_t last_dot = rest.rfind('.');
  out.last = last_dot == std::string_view::npos ? rest : rest.substr(last_dot + 1);
  if (out.last.empty()) {
    out.last = name;  // ".weight", "a..weight", "x."
  }
  if (rest.ends_with(".bias")) {
    out.bias = true;
    rest.remove_suffix(5);
  } else if (rest.size() == name.size() && (rest.ends_with("_bias") || rest == "bias")) {
    out.bias = true;
  }

  if (dialect == Dialect::kHuggingFace) {
    for (;;) {
      const std::string_view word = first_component(rest);
      if (word.size() == rest.size() || !contains(kPrefixes, word)) {
        break;
      }
      rest.remove_prefix(word.size() + 1);
    }
    out.tower = contains(towers(), first_component(rest));
  } else {
    const std::string_view word = first_component(rest);
    out.tower = word.size() != rest.size() && contains(kGgufTowers, word);
  }

  std::string_view previous;
  while (true) {
    const std::string_view word = first_component(rest);
    const std::int32_t number = small_number(word);
    if (number >= 0 && out.layer < 0 && contains(kLayerWords, previous)) {
      out.layer = number;
      out.key.resize(out.key.size() - previous.size());
      out.key += "{layer}";
    } else if (number >= 0) {
      if (out.expert < 0 && (previous == "experts" || previous == "expert")) {
        out.expert = number;
      }
      if (out.number_count < kMaxNumbers) {
        out.numbers[out.number_count++] = number;
      }
      if (!out.key.empty()) {
        out.key += '.';
      }
      out.key += '#';
    } else {
      if (!out.key.empty()) {
        out.key += '.';
      }
      out.key += word;
    }
    previous = word;
    if (word.size() == rest.size()) {
      break;
    }
    rest.remove_prefix(word.size() + 1);
  }
}

}  // namespace vindex::model
