// Owns the forms of remote addresses, and what their parts may hold.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace vindex::input {

/// Errors: UsageError E-REMOTE-ADDRESS (64) where `address` is none of the forms of its scheme: an
/// empty part, "..", spaces, control characters, a fragment, a name or password for the server, or
/// a host, port, bucket or repository that is none (address_names.hpp). The message shows neither
/// password nor query.
void check_remote_address(const std::string& address);

/// UsageError E-REMOTE-ADDRESS: `address` begins with no scheme that is known.
[[noreturn]] void throw_unknown_scheme(const std::string& address);

/// hf://ORGANISATION/REPOSITORY[@REVISION][/PATH]. PATH names a folder where its last part has no
/// dot, or a slash follows it, else a file. A revision has no slash (%2F stands for one) but for
/// refs/pr/N and refs/convert/NAME.
struct HubAddress {
  std::string repository;  ///< "ORGANISATION/REPOSITORY"
  std::string revision;    ///< empty: what the repository shows by itself
  std::string folder;      ///< with a slash at its end; empty: all of it
  std::string file;        ///< empty: the folder is meant
};

/// Errors: those of check_remote_address().
HubAddress hub_address(const std::string& address);

/// s3://BUCKET/KEY. KEY names a folder, a prefix up to a slash, where its last part has no dot,
/// or a slash follows it, else an object.
struct S3Address {
  std::string bucket;
  std::string folder;  ///< with a slash at its end; empty: the object lies at the top of the bucket
  std::string file;    ///< empty: the folder is meant
};

/// Errors: those of check_remote_address().
S3Address s3_address(const std::string& address);

/// Everything but letters, digits, "-", ".", "_", "~" as %XX: one component of a path.
std::string percent_encoded(std::string_view text);
/// Each component by itself, so that the slashes stay.
std::string percent_encoded_path(std::string_view path);
/// %XX as the byte; a % that no two hexadecimal digits follow stays.
std::string percent_decoded(std::string_view text);

/// The text before "://" where it could be a scheme (RFC 3986).
std::optional<std::string_view> scheme_of(std::string_view address);

}  // namespace vindex::input
