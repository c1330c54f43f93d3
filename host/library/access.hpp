// Owns what the sources of the library share: a model's state, and what settings mean below.
#pragma once

#include "engine/opening.hpp"
#include "measure/backend.hpp"
#include <vindex/vindex.hpp>

#include <memory>
#include <string>
#include <vector>

namespace vindex {

struct v0::Model::State {
  std::string address;
  engine::OpenModel model;
  std::vector<Matrix> matrices;  ///< of model.index.matrices, one each
  std::vector<std::string> warnings;
};

inline namespace v0 {

struct ModelAccess {
  static const Model::State& state(const Model& model) { return *model.state_; }
};

}  // namespace v0

namespace library {

measure::Mode mode_of(Mode mode);
/// Errors: UsageError E-BACKEND.
engine::BackendChoice backend_of(const std::string& name);

}  // namespace library
}  // namespace vindex
