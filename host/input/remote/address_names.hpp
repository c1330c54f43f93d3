// Owns what the names in an address may be made of: hosts with their ports, buckets, repositories.
// They become parts of the address that is asked, so a name with a slash, "#", "?" or "@" would
// choose the server.
#pragma once

#include <string>
#include <string_view>

namespace vindex::input {

/// What is wrong with HOST or HOST:PORT; empty where nothing is. A host has letters of ASCII,
/// digits, "-", "." and "_", or is an IPv6 address in brackets; a port is 1 to 65535.
std::string fault_of_host(std::string_view host);

/// Whether the port that PROXY names, [SCHEME://][USER[:PASSWORD]@]HOST[:PORT][/...], is one, or it
/// names none.
bool has_good_port(std::string_view proxy);

/// What is wrong with the name of a bucket: 3 to 63 small letters, digits, "-" and ".", at both
/// ends a letter or digit, no "..", no IPv4 address. Source: Amazon S3, "General purpose bucket
/// naming rules".
std::string fault_of_bucket(std::string_view bucket);

/// What is wrong with one part of ORGANISATION/REPOSITORY: 1 to 96 letters of ASCII, digits, "-",
/// "_" and ".", neither "-" nor "." at an end, no "--" and no "..". Source: huggingface_hub,
/// utils/_validators.py, validate_repo_id().
std::string fault_of_repository(std::string_view part);

}  // namespace vindex::input
