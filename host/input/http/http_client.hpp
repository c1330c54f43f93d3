// Owns exchanges over HTTP as callers want them: redirects followed, servers left alone for as long
// as they ask, credentials only where they belong. It knows no files: http_source.hpp asks for
// their ranges.
#pragma once

#include "curl_exchange.hpp"
#include "http_message.hpp"

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

namespace vindex::input {

/// The usual ones with the environment's HF_HUB_DOWNLOAD_TIMEOUT (stall_seconds),
/// HF_HUB_ETAG_TIMEOUT (connect_seconds) and SSL_CERT_FILE. Errors: ConfigurationError E-PROXY (78)
/// where a variable names a proxy with a port that is none.
HttpSettings http_settings();

/// The fields ("Name: value") that show who asks, to add to a GET of `url` that has `fields`
/// already: none where they are not for that host. Thread-safe; empty: nobody is shown anything.
using HttpCredential = std::function<std::vector<std::string>(
    const std::string& url, const std::vector<std::string>& fields)>;

/// `token` for `origin` (origin_of()) alone, and only where that is https.
HttpCredential bearer_credential(std::string origin, std::string token);

/// Thread-safe. Connections are kept for the next call.
class HttpClient {
 public:
  /// `stop` ends every call, those under way too, with Stopped.
  HttpClient(HttpSettings settings, HttpCredential credential, std::stop_token stop);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  /// Performs all of them side by side, redirects followed: only to https, or to http where the
  /// first address was http. A server that asks to wait (seconds_to_wait()) is left alone for that
  /// long by every caller, at most settings.longest_wait; what it refused meanwhile is asked for
  /// once more. Errors: RemoteError E-REMOTE-REDIRECT (final), E-REMOTE-READ where libcurl itself
  /// fails; Stopped.
  void perform(std::span<HttpExchange> exchanges);

 private:
  using Clock = std::chrono::steady_clock;
  void perform_once(std::span<HttpExchange*> exchanges);
  /// Notes for how long the server of an answer shall be left alone; false where it does not say,
  /// or says too long.
  bool leave_alone(const HttpExchange& exchange);
  void wait_for_servers(std::span<HttpExchange*> exchanges);
  std::unique_ptr<CurlWork> take();
  void give_back(std::unique_ptr<CurlWork> work);

  HttpSettings settings_;
  HttpCredential credential_;
  std::stop_token stop_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<CurlWork>> idle_;
  std::map<std::string, Clock::time_point> not_before_;  ///< by origin
};

}  // namespace vindex::input
