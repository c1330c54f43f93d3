// Owns how the experts of a mixture meet adapters: PEFT adapts the stack of all experts of a layer
// as one parameter, transformers 5 makes that stack of experts that are stored one by one, and a
// model may hold either. gate_up_proj is gate_proj above up_proj.
// Source: transformers src/transformers/conversion_mapping.py, PEFT
// src/peft/utils/transformers_weight_conversion.py and src/peft/tuners/lora/layer.py.
#pragma once

#include "patch.hpp"

#include "model/model_index.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace vindex::edit {

/// Where the matrix of one expert lies in the parameter that transformers makes of all.
struct PlaceInStack {
  std::string parameter;       ///< "model.layers.1.mlp.experts.gate_up_proj"
  std::int64_t experts = 0;    ///< of the stack
  std::int64_t rows = 0;       ///< of a slice
  std::int64_t first_row = 0;  ///< where the matrix begins in its slice
};

/// The routed experts of a model, of which every one is a tensor, or a slice of one.
class Experts {
 public:
  explicit Experts(const model::ModelIndex& index);

  /// `entry`, of a parameter of PEFT's, as entries of the matrices that the model has: turned where
  /// the PEFT that made it took the stack for in x out, cut where gate and up are apart. Every
  /// other entry comes back as it is. Errors: ConfigurationError (78) E-PATCH-SHAPE for another
  /// count of experts, E-ADAPTER-PAIR for a square matrix where the file does not say which side is
  /// which. Entries of an outline (PatchFile) come back as an outline.
  std::vector<PatchEntry> fitted(PatchEntry entry) const;

  /// Of `matrix`, an expert that is a tensor of its own. Errors: ConfigurationError E-LORA-EXPERTS
  /// where no parameter is known that holds it.
  PlaceInStack place(const model::MatrixRecord& matrix) const;

 private:
  using Key = std::tuple<std::int32_t, std::string, std::int32_t>;  ///< layer, role, expert
  using Slices = std::vector<const model::MatrixRecord*>;
  const Slices* stack_called(const std::string& name) const;
  const model::MatrixRecord* alone(std::int32_t layer, const std::string& role,
                                   std::int32_t expert) const;
  std::int64_t count(std::int32_t layer, const std::string& role) const;
  void orient(PatchEntry& entry, std::int64_t rows, std::int64_t cols, bool transposed) const;

  const model::ModelIndex& index_;
  std::map<Key, const model::MatrixRecord*> alone_;
  std::map<std::string, Slices> stacks_;
};

}  // namespace vindex::edit
