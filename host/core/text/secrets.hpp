// Owns taking secrets out of addresses before they become text: printed, stored, logged or drawn.
// The user and the password of a server, and the query of an address, which is where presigned
// addresses have their signature (X-Amz-Signature) and others a token.
#pragma once

#include <string>
#include <string_view>

namespace vindex {

/// `text` with every address SCHEME://... in it shortened to what may be shown: no user, no
/// password, of http and https neither query nor fragment, of others no query that assigns
/// (NAME=VALUE). Where the host's port is no number, which is how a password looks whose "@" is not
/// in sight, everything behind "://" is "...". An address ends at white space, at quotation marks,
/// angle brackets, a backslash, and before punctuation that belongs to the sentence. What it gives
/// stays as it is when it passes again; printable(), excerpt() and every error apply it.
std::string without_secrets(std::string_view text);

/// The same where all of `address` behind "://" is one address, spaces and quotation marks too: for
/// what is refused because of them.
std::string address_without_secrets(std::string_view address);

}  // namespace vindex
