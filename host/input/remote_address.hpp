// Owns the forms of remote addresses, and what their parts may hold.
#pragma once

#include <string>
#include <string_view>

namespace vindex::input {

/// Errors: UsageError E-REMOTE-ADDRESS (64) where `address` is none of the forms of its scheme: an
/// empty part, "..", spaces, control characters, a fragment, a name or password for the server.
void check_remote_address(const std::string& address);

/// Everything but letters, digits, "-", ".", "_", "~" as %XX: one component of a path.
std::string percent_encoded(std::string_view text);
/// %XX as the byte; a % that no two hexadecimal digits follow stays.
std::string percent_decoded(std::string_view text);

}  // namespace vindex::input
