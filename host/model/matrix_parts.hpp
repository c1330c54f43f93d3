// Owns which bytes of which stored tensors a matrix is made of.
#pragma once

#include "logical_tensor.hpp"

#include <vindex/model/model_index.hpp>

#include <cstdint>

namespace vindex::model {

/// Sets codes and companions of `matrix`, slice `slice` (-1: all) of the `slices` of `logical`;
/// `unsupported` where they do not divide, cannot be decoded or contradict the shape.
void set_parts(const shard::ModelFiles& files, const LogicalTensor& logical, std::int64_t slice,
               std::int64_t slices, MatrixRecord& matrix);

}  // namespace vindex::model
