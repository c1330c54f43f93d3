// Owns the openers of the schemes that are built in, one source file each.
#pragma once

#include "model_store.hpp"

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace vindex::input {

/// The text before "://" where it could be a scheme (RFC 3986).
std::optional<std::string_view> scheme_of(std::string_view address);

/// local_store.cpp. A path as it is, and file:///PATH or file://localhost/PATH (RFC 8089), whose
/// store has the address PATH.
std::shared_ptr<ModelStore> open_local_store(const std::string& path);
std::string path_of_file_address(const std::string& address);

/// remote_address.cpp: hf://ORGANISATION/REPOSITORY[@REVISION], https://HOST/PATH, s3://BUCKET/KEY.
/// Throws before any request: UsageError E-REMOTE-ADDRESS for an address that is malformed (an
/// empty part, "..", spaces, control characters, another scheme), UsageError E-REMOTE for a
/// well-formed one: remote models are not read yet.
std::shared_ptr<ModelStore> refuse_remote_address(const std::string& address);

}  // namespace vindex::input
