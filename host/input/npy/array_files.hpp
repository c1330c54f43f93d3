// Owns a folder or file of arrays (.npy, .safetensors) as ModelFiles: every array of every file is
// a StoredTensor. A .npy file names its array by its own name: `hidden.3.npy` holds "hidden.3".
#pragma once
#include "input/model_files.hpp"

#include <string>

namespace vindex::input {

/// Opens every .npy and .safetensors file of a folder, or one such file. Reads headers only;
/// configurations and indexes beside the files are not looked at. Errors: FormatError E-NPY-*,
/// E-ST-*, E-TENSOR-TWICE for a name that two files hold; MissingInputError E-FOLDER-EMPTY, or
/// where nothing is at `address`; those of open_store().
ModelFiles open_array_files(const std::string& address, const std::stop_token& stop = {});

}  // namespace vindex::input
