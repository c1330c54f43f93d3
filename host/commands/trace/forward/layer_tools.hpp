// Owns what the blocks of a layer work with: the weights of a stage, and who computes.
#pragma once

#include "backend/forward_backend.hpp"
#include "model/transformer/transformer.hpp"

#include <cstdint>
#include <span>
#include <stop_token>

namespace vindex::commands {

/// Weights that are there while a stage is worked on.
class StageWeights {
 public:
  virtual ~StageWeights() = default;
  /// Of ModelIndex::matrices. Errors: those of reading it.
  virtual MatrixInput& matrix(std::int64_t index) = 0;
  /// Empty for none.
  virtual std::span<const float> vector(const model::VectorRef& ref) = 0;
};

/// What the blocks work with.
struct LayerTools {
  const model::Transformer& model;
  StageWeights& weights;
  ForwardBackend& backend;
  std::stop_token stop;
};

}  // namespace vindex::commands
