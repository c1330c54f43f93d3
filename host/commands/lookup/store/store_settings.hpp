// Owns what storing features is asked for.
#pragma once

#include "decode/encoding/element_type.hpp"
#include "engine/run_settings.hpp"
#include "model/transformer/features.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace vindex::commands {

struct StoreSettings {
  /// Model, output, selection, threads, memory, restart, command.
  engine::RunSettings run;
  std::string tokenizer;  ///< a tokenizer.json; empty: the model's own
  model::FeatureRole role = model::FeatureRole::kGate;
  /// F16, BF16 or F32. Where none is said: the type of the weights where all have one of these,
  /// F32 of weights of several of them, F16 of all others.
  std::optional<decode::ElementType> type;
  std::int64_t tokens_out = 8;  ///< entries of the vocabulary stored for each feature
};

}  // namespace vindex::commands
