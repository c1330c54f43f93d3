// Owns making the index of a model from its stored tensors.
#pragma once

#include "input/model_files.hpp"
#include "model/model_index.hpp"

namespace vindex::model {

/// Interprets the tensors of `files`. Errors: FormatError only for what makes the model as a whole
/// unreadable; a weight whose companions are missing or misshapen becomes a record with
/// `unsupported` set.
ModelIndex index_model(const input::ModelFiles& files, const IndexOptions& options = {});

}  // namespace vindex::model
