// Owns performing exchanges side by side with libcurl, once: no redirect is followed, nothing asked
// again.
#pragma once

#include "http_message.hpp"

#include <curl/curl.h>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

namespace vindex::input {

/// What must not take longer or hold more, and whom to trust.
struct HttpSettings {
  double connect_seconds = 15;
  double stall_seconds = 30;     ///< below stall_bytes a second for so long: broken off
  long stall_bytes = 1024;       ///< a second
  double longest_wait = 120;     ///< seconds that a server's wish to wait is obeyed
  int redirects = 10;            ///< followed for one request
  std::string authorities = {};  ///< file of certificates in place of the system's; empty: those
};

/// Handles of libcurl, with the connections that are kept between calls. One thread at a time.
class CurlWork {
 public:
  CurlWork();
  ~CurlWork();
  CurlWork(const CurlWork&) = delete;
  CurlWork& operator=(const CurlWork&) = delete;

  /// A request for final_url of each of `exchanges`, with its own fields and those of `added` (as
  /// many as exchanges), and what came of it. Errors: RemoteError E-REMOTE-READ where libcurl
  /// itself fails. Throws Stopped within a tenth of a second after `stop`; what is under way is
  /// broken off with this object, which is of no more use.
  void perform(std::span<HttpExchange*> exchanges,
               const std::vector<std::vector<std::string>>& added, const HttpSettings& settings,
               const std::stop_token& stop);

 private:
  CURLM* multi_ = nullptr;
  std::vector<CURL*> easy_;
};

}  // namespace vindex::input
