// Owns what a remote address of a model looks like: hf://ORGANISATION/REPOSITORY[@REVISION],
// https://HOST/PATH, s3://BUCKET/KEY.
#pragma once

#include <string>

namespace vindex::shard {

/// Returns for a local path. Errors, before any request: UsageError E-REMOTE-ADDRESS for an address
/// that is malformed (an empty part, "..", spaces, control characters, another scheme), UsageError
/// E-REMOTE for a well-formed one: remote models are not read yet.
void refuse_remote_address(const std::string& path);

}  // namespace vindex::shard
