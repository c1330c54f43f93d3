// Owns single HTTP exchanges: several at once, redirects, limits of time and of what an answer may
// hold, and where credentials go. It knows no files: http_source.hpp asks for their ranges.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

namespace vindex::input {

struct CurlWork;

/// What must not take longer or hold more.
struct HttpLimits {
  long connect_seconds = 15;
  long stall_seconds = 30;    ///< below stall_bytes a second for so long: broken off
  long stall_bytes = 1024;    ///< a second
  double longest_wait = 120;  ///< seconds that a Retry-After is obeyed
  int redirects = 10;         ///< followed for one request
};

/// Those above, stall_seconds from HF_HUB_DOWNLOAD_TIMEOUT where it is a number from 1 to 3600.
HttpLimits http_limits_of_environment();

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

/// A secret for one origin.
struct HttpCredential {
  std::string origin;  ///< origin_of() an https URL; of http none is ever sent
  std::string bearer;
};

/// "https://host:port", in small letters, the port always there; empty where `url` is no http(s)
/// URL.
std::string origin_of(const std::string& url);

/// Seconds that an answer asks to wait: Retry-After in seconds or as a date, else the t= of
/// RateLimit.
std::optional<double> seconds_to_wait(const HttpHead& head);

/// Thread-safe. Connections are kept for the next call.
class HttpClient {
 public:
  /// `stop` ends every call, those under way too, with Stopped.
  HttpClient(const HttpLimits& limits, HttpCredential credential, std::stop_token stop = {});
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  /// Performs all of them side by side, redirects followed: only to https, or to http where the
  /// first address was http; the credential goes to its origin alone. An answer of 429 or 503 that
  /// says how long to wait is waited for and asked for once more. Errors: RemoteError
  /// E-REMOTE-REDIRECT (final), E-REMOTE-READ where libcurl itself fails; Stopped.
  void perform(std::span<HttpExchange> exchanges);

 private:
  void perform_once(std::span<HttpExchange*> exchanges);
  std::unique_ptr<CurlWork> take();
  void give_back(std::unique_ptr<CurlWork> work);

  HttpLimits limits_;
  HttpCredential credential_;
  std::stop_token stop_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<CurlWork>> idle_;
};

}  // namespace vindex::input
