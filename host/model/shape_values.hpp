// Owns reading the values of `weight_shape` tensors, the one thing about a model that its headers
// do not say.
#pragma once

#include <vindex/shard/model_files.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

namespace vindex::model {

class ShapeValues {
 public:
  /// The two numbers in stored tensor `tensor`, or nothing where it is -1, of another shape or
  /// type, or was not read.
  std::optional<std::array<std::int64_t, 2>> find(std::int32_t tensor) const;
  void insert(std::int32_t tensor, std::array<std::int64_t, 2> value) { values_[tensor] = value; }

 private:
  std::unordered_map<std::int32_t, std::array<std::int64_t, 2>> values_;
};

/// Reads all of `tensors` that are I64 or I32 of two elements. Neighbours within a page share one
/// read, all reads of a shard are one call. Errors: those of the sources.
ShapeValues read_shape_values(const shard::ModelFiles& files, std::vector<std::int32_t> tensors);

}  // namespace vindex::model
