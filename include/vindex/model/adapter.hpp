// Owns what is known of an adapter beside the products of its factors.
#pragma once

#include <string>

namespace vindex::model {

/// The name in the base model of a whole tensor that a PEFT adapter holds:
/// "base_model.model.lm_head.base_layer.weight" (a copy that PEFT saves beside the factors of an
/// embedding) and "base_model.model.lm_head.weight" (modules_to_save) are "lm_head.weight".
std::string base_tensor_name(const std::string& name);

}  // namespace vindex::model
