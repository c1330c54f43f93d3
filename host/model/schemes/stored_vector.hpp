// Owns reading a part of a stored tensor as float32: a bias, the weights of a norm.
#pragma once

#include "input/model_files.hpp"

#include <cstdint>
#include <vector>

namespace vindex::model {

/// Values of a small stored tensor (a norm, a bias, sinks): elements first, first + step, ... of it
/// in storage order.
struct VectorRef {
  std::int32_t tensor = -1;  ///< index into ModelFiles::tensors; -1: there is none
  std::int64_t first = 0, step = 1, count = 0;
  explicit operator bool() const { return tensor >= 0; }
};

/// The values of `ref`, as float32. Errors: FormatError (65) E-TRACE-TENSOR for a type that is not
/// decodable; those of the source.
std::vector<float> read_vector(const input::ModelFiles& files, const VectorRef& ref);

}  // namespace vindex::model
