// Owns the opener of local folders and files, and of addresses file://.
#pragma once

#include "input/model_store.hpp"

#include <memory>
#include <string>

namespace vindex::input {

/// A path as it is, and file:///PATH or file://localhost/PATH (RFC 8089), whose
/// store has the address PATH.
std::shared_ptr<ModelStore> open_local_store(const std::string& path);
std::string path_of_file_address(const std::string& address);

}  // namespace vindex::input
