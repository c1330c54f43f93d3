// Owns what the head of an HTTP answer and addresses say.
#pragma once

#include <map>
#include <optional>
#include <string>

namespace vindex::input {

/// The head of an answer.
struct HttpHead {
  int status = 0;
  std::map<std::string, std::string> fields;  ///< names in small letters
  const std::string* find(const std::string& name) const {
    const auto found = fields.find(name);
    return found == fields.end() ? nullptr : &found->second;
  }
};

bool is_redirect(int status);
/// A to Z as a to z.
std::string small_letters(std::string text);

/// "https://host:port", in small letters, the port always there; empty where `url` is no http(s)
/// URL, names a user, or has a host or port that is none.
std::string origin_of(const std::string& url);

/// Seconds that an answer asks to wait before the next request: Retry-After in seconds or as a
/// date where it is a refusal (429, 503); else the t= of RateLimit where it is one, or says that no
/// request is left (r=0).
std::optional<double> seconds_to_wait(const HttpHead& head);

/// Where `location` leads from `base`: an absolute URL, "//host/path", "/path" or a relative one.
std::string url_behind(const std::string& base, const std::string& location);

/// `url` for messages: what stands behind ? may be a secret.
std::string shown_url(const std::string& url);

}  // namespace vindex::input
