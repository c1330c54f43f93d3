// Owns what the sources of the library share: a model's state, and what settings mean below.
#pragma once

#include "backend/backend.hpp"
#include "engine/devices/backends.hpp"
#include <vindex/vindex.hpp>

#include <memory>
#include <stop_token>
#include <string>
#include <vector>

namespace vindex {

struct v0::Model::State {
  std::string address;
  std::stop_token stop;
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

/// What a call of the library ends with once its stop was requested. Never returns.
[[noreturn]] void throw_stopped(const char* what);

/// Before anything computes: OpenBLAS stands beside whatever BLAS the program has itself, with the
/// kernels that suit the processor, or those of OPENBLAS_CORETYPE in the environment that was
/// handed over.
void prepare_arithmetic();

SpectrumMode mode_of(Mode mode);
/// Errors: UsageError E-BACKEND.
engine::BackendChoice backend_of(const std::string& name);

}  // namespace library
}  // namespace vindex
