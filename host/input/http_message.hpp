// Owns what an HTTP exchange consists of, and what its head and its addresses say.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

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

struct HttpExchange {
  std::string url;
  std::vector<std::string> fields;  ///< "Name: value", beside what every request has
  /// Of a final answer, before its body; false: the body is not wanted and the connection ends.
  std::function<bool(const HttpHead&)> begin;
  /// The body, in pieces; false: it is longer than it may be.
  std::function<bool(std::span<const std::byte>)> body;

  // What came of it.
  HttpHead head;
  std::string final_url;  ///< behind all redirects
  bool refused = false;   ///< begin() or body() said no
  std::string failure;    ///< of the connection; empty: the answer is whole, or refused
};

bool is_redirect(int status);
/// A to Z as a to z.
std::string small_letters(std::string text);

/// "https://host:port", in small letters, the port always there; empty where `url` is no http(s)
/// URL.
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
