// Owns reading credentials, region and endpoint from variables and from profiles of the shared
// file.
#include "s3_environment.hpp"

#include "core/text/text_parts.hpp"
#include "input/http/http_message.hpp"
#include "input/remote/remote_environment.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <string_view>

namespace vindex::input {

namespace {

constexpr std::size_t kLongestFile = std::size_t{1} << 20U;
constexpr std::size_t kLongestKey = 8192;  ///< session tokens have about 1000 letters

std::string first_set(std::initializer_list<const char*> names) {
  for (const char* const name : names) {
    if (std::string value = variable(name); !value.empty()) {
      return value;
    }
  }
  return std::string();
}

[[noreturn]] void refuse(const std::string& why) {
  throw ConfigurationError("E-S3-CREDENTIALS", why);
}

/// Whole and printable: it becomes part of a request's head.
void require_keys(const AwsCredentials& keys, const std::string& where) {
  if (keys.key_id.empty() || keys.secret.empty()) {
    refuse(where + ": an access key and its secret are needed, and one of them is missing");
  }
  for (const std::string* key : {&keys.key_id, &keys.secret, &keys.session_token}) {
    if (key->size() > kLongestKey ||
        std::any_of(key->begin(), key->end(), [](char c) { return c <= 0x20 || c >= 0x7F; })) {
      refuse(where + ": a key holds spaces, control characters or letters beyond ASCII");
    }
  }
}

/// Of the shared file; sets `region` where the profile has one.
std::optional<AwsCredentials> shared_credentials(std::string& region) {
  std::string path = without_tilde(variable("AWS_SHARED_CREDENTIALS_FILE"));
  const std::string named = first_set({"AWS_PROFILE", "AWS_DEFAULT_PROFILE"});
  const std::string home = variable("HOME");
  if (path.empty() && !home.empty()) {
    path = home + "/.aws/credentials";
  }
  const std::string profile = named.empty() ? "default" : named;
  auto keys = profile_credentials(
      path.empty() ? std::string() : text_of_file(path, kLongestFile, "E-S3-CREDENTIALS"), profile,
      region);
  if (!keys && !named.empty()) {
    refuse(fmt::format("AWS_PROFILE={}: no such profile in {}", excerpt(named), printable(path)));
  }
  if (keys) {
    require_keys(*keys, fmt::format("profile {} of {}", excerpt(profile), printable(path)));
  }
  return keys;
}

std::optional<AwsCredentials> credentials_of_environment(std::string& region) {
  if (is_on("AWS_NO_SIGN_REQUEST")) {
    return std::nullopt;
  }
  AwsCredentials keys{variable("AWS_ACCESS_KEY_ID"), variable("AWS_SECRET_ACCESS_KEY"),
                      variable("AWS_SESSION_TOKEN")};
  if (keys.key_id.empty() && keys.secret.empty()) {
    return shared_credentials(region);
  }
  require_keys(keys, "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY");
  return keys;
}

bool is_region(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
}

}  // namespace

std::optional<AwsCredentials> profile_credentials(const std::string& text,
                                                  const std::string& profile, std::string& region) {
  std::optional<AwsCredentials> keys;
  bool inside = false;
  for (const std::string_view raw : split(text, '\n')) {
    const std::string line = trimmed(raw);
    if (line.starts_with('[')) {
      inside = line == "[" + profile + "]" || line == "[profile " + profile + "]";
      if (inside && !keys) {
        keys.emplace();
      }
    }
    const std::size_t equals = line.find('=');
    if (!inside || equals == std::string::npos || line.starts_with('#') || line.starts_with(';')) {
      continue;
    }
    const std::string name = trimmed(std::string_view(line).substr(0, equals));
    const std::string value = trimmed(std::string_view(line).substr(equals + 1));
    if (name == "aws_access_key_id") {
      keys->key_id = value;
    } else if (name == "aws_secret_access_key") {
      keys->secret = value;
    } else if (name == "aws_session_token") {
      keys->session_token = value;
    } else if (name == "region") {
      region = value;
    }
  }
  return keys;
}

S3Environment s3_environment() {
  S3Environment s3;
  s3.region = "us-east-1";
  s3.credentials = credentials_of_environment(s3.region);
  if (const std::string given = first_set({"AWS_REGION", "AWS_DEFAULT_REGION"}); !given.empty()) {
    s3.region = given;
  }
  if (!is_region(s3.region)) {
    throw ConfigurationError("E-S3-REGION",
                             fmt::format("\"{}\" is no region of S3", excerpt(s3.region)));
  }
  s3.endpoint = first_set({"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"});
  while (s3.endpoint.ends_with('/')) {
    s3.endpoint.pop_back();
  }
  if (!s3.endpoint.empty() &&
      (origin_of(s3.endpoint).empty() || s3.endpoint.find_first_of("?#") != std::string::npos)) {
    // It is not repeated: what is wrong may be a password.
    throw ConfigurationError("E-S3-ENDPOINT",
                             "AWS_ENDPOINT_URL is no https:// or http:// address of a server, with "
                             "no user and no password and a port from 1 to 65535");
  }
  return s3;
}

std::string S3Environment::bucket_url(const std::string& bucket) const {
  if (!endpoint.empty()) {
    return fmt::format("{}/{}/", endpoint, bucket);
  }
  const std::string host = fmt::format("s3.{}.amazonaws.com", region);
  return bucket.find('.') == std::string::npos ? fmt::format("https://{}.{}/", bucket, host)
                                               : fmt::format("https://{}/{}/", host, bucket);
}

}  // namespace vindex::input
