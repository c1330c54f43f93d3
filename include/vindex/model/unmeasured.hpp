// Owns what is said of what stays unmeasured: matrices that cannot be decoded, and tensors with
// many sides that are no matrices.
#pragma once

#include <vindex/model/model_index.hpp>

#include <string>

namespace vindex::model {

/// "12 tensors of rank 3 or more stand unmeasured: 10 convolution, 2 rank 4, for example NAME", or
/// nothing where every such tensor is measured (a stack of experts is). Vectors and biases are not
/// counted: nobody misses them.
std::string unmeasured_text(const ModelIndex& index);

/// Why the weights of `matrix` cannot be had; empty where they can.
std::string undecodable_text(const MatrixRecord& matrix);

}  // namespace vindex::model
