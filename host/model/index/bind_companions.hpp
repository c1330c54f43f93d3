// Owns putting stored tensors together: which are codes, which are companions of which codes (also
// across shards), and what one logical weight they make.
#pragma once

#include "input/model_files.hpp"
#include "model/config/model_config.hpp"
#include "model/logical_tensor.hpp"

#include <cstdint>
#include <vector>

namespace vindex::model {

/// All logical tensors, in bytewise order of name. Reads nothing but the values of `weight_shape`
/// tensors (16 bytes each, neighbours in one read). `threads` as in IndexOptions. Errors: those of
/// the sources.
std::vector<LogicalTensor> bind_companions(const input::ModelFiles& files,
                                           const QuantClaims& claims, std::int32_t threads,
                                           std::vector<Warning>& warnings);

}  // namespace vindex::model
