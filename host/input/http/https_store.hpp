// Owns the opener of addresses https:// and http://.
#pragma once

#include "input/model_store.hpp"

#include <memory>
#include <stop_token>
#include <string>

namespace vindex::input {

/// https://HOST/PATH and http://HOST/PATH, one file and what lies beside it.
/// Throws before any request: UsageError E-REMOTE-ADDRESS (remote_address.hpp).
std::shared_ptr<ModelStore> open_https_store(const std::string& address,
                                             const std::stop_token& stop);

}  // namespace vindex::input
