// Owns an extracted folder as the model that measuring opens: each organ a file of it, whichever
// container it was taken from.
#pragma once
#include "input/model_files.hpp"

#include <string>

namespace vindex::organ {

/// The model in the folder `path` (or its manifest), as input::open_model() would have opened it;
/// of a selection, what there is. Keys are known by their values alone: long arrays (a vocabulary)
/// cannot be read through the result. Errors: those of read_manifest() and of opening organs;
/// MissingInputError E-NO-TENSORS.
input::ModelFiles open_organ_model(const std::string& path, const input::OpenOptions& options = {});

/// Whether a local folder has a manifest of this program: for who looks for models, and meets
/// manifests of others.
bool holds_organs(const std::string& folder);

}  // namespace vindex::organ
