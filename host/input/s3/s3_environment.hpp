// Owns what the environment says of S3, with the meanings that the AWS command line gives these
// variables and the shared credentials file.
#pragma once

#include "aws_signature.hpp"

#include <optional>
#include <string>

namespace vindex::input {

struct S3Environment {
  /// AWS_ACCESS_KEY_ID with AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN; else those of the profile
  /// AWS_PROFILE (`default`) in AWS_SHARED_CREDENTIALS_FILE (~/.aws/credentials). Nothing where
  /// there are none, or AWS_NO_SIGN_REQUEST is on: requests are not signed then.
  std::optional<AwsCredentials> credentials;
  /// AWS_REGION, else AWS_DEFAULT_REGION, else the profile's, else us-east-1.
  std::string region;
  /// AWS_ENDPOINT_URL_S3, else AWS_ENDPOINT_URL; no slash at its end. Empty: Amazon's of the
  /// region.
  std::string endpoint;

  /// Where the bucket's keys begin, with a slash at the end. Amazon's hosts carry the bucket in
  /// their name but for buckets with dots, whose certificates would not match; every other
  /// endpoint has it in the path.
  std::string bucket_url(const std::string& bucket) const;
};

/// Errors: ConfigurationError E-S3-CREDENTIALS (78) where half of a pair of keys is given, the
/// profile that AWS_PROFILE names is not there or has no keys, or one of them holds what no key
/// does; E-S3-ENDPOINT for one that is no https or http address; E-S3-REGION for a region that is
/// no name. None of them shows a secret.
S3Environment s3_environment();

/// The lines `NAME = VALUE` of [profile] of a file in the form of ~/.aws/credentials; nothing where
/// it has no such profile.
std::optional<AwsCredentials> profile_credentials(const std::string& text,
                                                  const std::string& profile, std::string& region);

}  // namespace vindex::input
