// Owns performing exchanges side by side with libcurl, once: no redirect is followed, nothing asked
// again.
#pragma once

#include "http_message.hpp"

#include <cstddef>
#include <curl/curl.h>
#include <functional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

namespace vindex::input {

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
