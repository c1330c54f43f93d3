// Owns the openers of the schemes that are built in, one source file each.
#pragma once

#include "input/model_store.hpp"

#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

namespace vindex::input {

/// The text before "://" where it could be a scheme (RFC 3986).
std::optional<std::string_view> scheme_of(std::string_view address);

/// local_store.cpp. A path as it is, and file:///PATH or file://localhost/PATH (RFC 8089), whose
/// store has the address PATH.
std::shared_ptr<ModelStore> open_local_store(const std::string& path);
std::string path_of_file_address(const std::string& address);

/// https_store.cpp: https://HOST/PATH and http://HOST/PATH, one file and what lies beside it.
/// Throws before any request: UsageError E-REMOTE-ADDRESS (remote_address.hpp).
std::shared_ptr<ModelStore> open_https_store(const std::string& address,
                                             const std::stop_token& stop);

/// hf_store.cpp: hf://ORGANISATION/REPOSITORY[@REVISION][/PATH]. Throws before any request: as
/// above, and what hub_environment() throws; MissingInputError E-FOLDER-EMPTY where HF_HUB_OFFLINE
/// is set and the cache lacks the repository.
std::shared_ptr<ModelStore> open_hf_store(const std::string& address, const std::stop_token& stop);

/// s3_store.cpp: s3://BUCKET/KEY. Throws before any request: UsageError E-REMOTE-ADDRESS, what
/// s3_environment() throws.
std::shared_ptr<ModelStore> open_s3_store(const std::string& address, const std::stop_token& stop);

}  // namespace vindex::input
