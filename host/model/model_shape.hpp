// Owns the model's overall numbers: what the tensors show, what the configuration claims, and
// warnings where the two differ. The tensors are believed; no claim is ever divided by.
#pragma once

#include "model_config.hpp"

#include <vindex/model/model_index.hpp>

namespace vindex::model {

/// Fills `index.shape` from `index.matrices` and `index.tensors`, adding W-KEY-CONTRADICTS warnings
/// that name both numbers.
void derive_shape(const shard::ModelFiles& files, Claims& claims, const QuantClaims& quant,
                  ModelIndex& index);

}  // namespace vindex::model
