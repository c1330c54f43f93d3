// Owns Signature Version 4 of Amazon Web Services: the fields that prove who sends a request
// ("Authenticating Requests (AWS Signature Version 4)", Amazon S3 API Reference). It is ours and
// not libcurl's: that of Debian 12 (7.88) sorts no query, encodes a path that is encoded already
// and sends no digest of the body, each of which a service refuses.
#pragma once

#include <ctime>
#include <string>
#include <vector>

namespace vindex::input {

struct AwsCredentials {
  std::string key_id;
  std::string secret;
  std::string session_token;  ///< of temporary credentials; else empty
};

/// The fields ("Name: value") to add to a GET without a body of `url` at `now`: x-amz-date,
/// x-amz-content-sha256, x-amz-security-token where there is one, Authorization. `url`: https or
/// http, path and query percent-encoded as S3 wants them (everything but letters, digits, "-", ".",
/// "_", "~", and the slashes of the path). `fields` ("Name: value", those that the request has
/// already) are signed too. The secret is in none of them.
std::vector<std::string> aws_signature(const AwsCredentials& credentials, const std::string& region,
                                       const std::string& url,
                                       const std::vector<std::string>& fields, std::time_t now);

}  // namespace vindex::input
