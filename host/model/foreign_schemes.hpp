// Owns telling weights of schemes that are not read from weights of those that are: by the method
// that the configuration names, and by names of tensors that only such a scheme has. What they hold
// (code books, rotated or reordered codes) must not pass for a weight.
#pragma once

#include "model_config.hpp"

#include <vindex/shard/model_files.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace vindex::model {

/// One weight of such a scheme: all that is stored of it.
struct ForeignWeight {
  std::string name;                  ///< logical: "model.layers.0.mlp.up_proj.weight"
  std::string scheme;                ///< "aqlm", "torchao"
  std::vector<std::int32_t> stored;  ///< into ModelFiles::tensors, the largest first
};

/// The weights of schemes that are not read. `bound[i]`: tensor i is codes or a companion of a
/// scheme that is. No tensor is in two of them.
std::vector<ForeignWeight> foreign_weights(const shard::ModelFiles& files,
                                           const QuantClaims& claims,
                                           const std::vector<bool>& bound);

}  // namespace vindex::model
