// Owns the opener of addresses s3://.
#pragma once

#include "input/model_store.hpp"

#include <memory>
#include <stop_token>
#include <string>

namespace vindex::input {

/// s3://BUCKET/KEY. Throws before any request: UsageError E-REMOTE-ADDRESS, what
/// s3_environment() throws.
std::shared_ptr<ModelStore> open_s3_store(const std::string& address, const std::stop_token& stop);

}  // namespace vindex::input
