// Owns the table of router families: what each does by itself, and under which keys it says the
// rest. Sources: transformers' modelling files (v5) by model_type; DeepSeek's own files for V2;
// llama.cpp's src/models/*.cpp for GGUF architectures.
#pragma once

#include "architecture/router_rule.hpp"
#include "model/families/tensor_name.hpp"

#include <cstdint>
#include <optional>
#include <string_view>

namespace vindex::model {

enum class Normalised : std::uint8_t { kNever, kAlways, kKeyElseNo, kKeyElseYes };

struct RouterFamily {
  /// model_type or general.architecture, '_' for '-'; in the table several, with spaces between.
  std::string_view architecture;
  RouterScoring scoring = RouterScoring::kSoftmax;  ///< where no key says another
  Normalised normalised = Normalised::kAlways;
  bool biased = false;
  bool grouped = false;     ///< has keys for groups
  bool method_key = false;  ///< topk_method decides bias and groups (DeepSeek)
  double scale = 1.0;       ///< where no key says another
  double sum_offset = 0.0;
  bool fixed = false;  ///< no key of config.json says another scoring or scale
};

/// The family called `architecture`, or nothing.
std::optional<RouterFamily> router_family(Dialect dialect, std::string_view architecture);

}  // namespace vindex::model
