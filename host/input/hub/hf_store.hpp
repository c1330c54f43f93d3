// Owns the opener of repositories of the Hugging Face Hub.
#pragma once

#include "input/model_store.hpp"

#include <memory>
#include <stop_token>
#include <string>

namespace vindex::input {

/// hf://ORGANISATION/REPOSITORY[@REVISION][/PATH]. Throws before any request: as
/// above, and what hub_environment() throws; MissingInputError E-FOLDER-EMPTY where HF_HUB_OFFLINE
/// is set and the cache lacks the repository.
std::shared_ptr<ModelStore> open_hf_store(const std::string& address, const std::stop_token& stop);

}  // namespace vindex::input
