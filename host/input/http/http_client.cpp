// Owns the loop around an exchange: following redirects, waiting as servers ask, and the
// certificates that are trusted.
#include "http_client.hpp"

#include "curl_library.hpp"

#include "core/process/stop.hpp"
#include "input/remote/address_names.hpp"
#include "input/remote/remote_environment.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <unistd.h>
#include <utility>

namespace vindex::input {

namespace {

constexpr std::size_t kIdleWorks = 16;

/// S3 redirects to another region by its name alone: who asked is told so.
bool is_elsewhere(const HttpHead& head) {
  return head.find("location") == nullptr && head.find("x-amz-bucket-region") != nullptr;
}

/// Where distributions keep the certificates of authorities; empty: at none of these places.
/// Source: Go, crypto/x509/root_linux.go, at 1.22.
std::string authorities_of_system() {
  for (const char* const path :
       {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
        "/etc/ssl/ca-bundle.pem", "/etc/pki/tls/cacert.pem",
        "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/cert.pem"}) {
    if (::access(path, R_OK) == 0) {
      return path;
    }
  }
  return {};
}

/// Leads a redirected exchange on. Errors: RemoteError E-REMOTE-REDIRECT.
void follow(HttpExchange& exchange) {
  const auto refuse = [&](const std::string& why) {
    throw RemoteError("E-REMOTE-REDIRECT", fmt::format("{}: {}", shown_url(exchange.url), why),
                      false);
  };
  const std::string* const location = exchange.head.find("location");
  if (location == nullptr || location->empty()) {
    refuse("the server redirects and does not say where");
    return;
  }
  const std::string next = url_behind(exchange.final_url, *location);
  const std::string origin = origin_of(next);
  const bool plain_before = origin_of(exchange.url).starts_with("http://");
  if (origin.empty()) {
    refuse("the server redirects to an address that is neither https nor http");
  }
  if (origin.starts_with("http://") && !plain_before) {
    refuse("the server redirects from https to http, which anyone could read and change");
  }
  exchange.final_url = next;
}

}  // namespace

HttpSettings http_settings() {
  // libcurl reads them by itself, and would only fail to connect, five times.
  for (const char* const name :
       {"http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"}) {
    if (!has_good_port(variable(name))) {
      throw ConfigurationError("E-PROXY",
                               fmt::format("{}: its port is no number from 1 to 65535", name));
    }
  }
  HttpSettings settings;
  settings.stall_seconds = seconds_of("HF_HUB_DOWNLOAD_TIMEOUT", settings.stall_seconds);
  settings.connect_seconds = seconds_of("HF_HUB_ETAG_TIMEOUT", settings.connect_seconds);
  settings.authorities = variable("SSL_CERT_FILE");
  if (settings.authorities.empty() && is_curl_carried()) {
    settings.authorities = authorities_of_system();
  }
  return settings;
}

HttpCredential bearer_credential(std::string origin, std::string token) {
  if (token.empty() || !origin.starts_with("https://")) {
    return {};
  }
  return [origin = std::move(origin), field = "Authorization: Bearer " + token](
             const std::string& url, const std::vector<std::string>& /*fields*/) {
    return origin_of(url) == origin ? std::vector<std::string>{field} : std::vector<std::string>();
  };
}

HttpClient::HttpClient(HttpSettings settings, HttpCredential credential, std::stop_token stop)
    : settings_(std::move(settings)), credential_(std::move(credential)), stop_(std::move(stop)) {}

HttpClient::~HttpClient() = default;

std::unique_ptr<CurlWork> HttpClient::take() {
  const std::lock_guard lock(mutex_);
  if (idle_.empty()) {
    return std::make_unique<CurlWork>();
  }
  auto work = std::move(idle_.back());
  idle_.pop_back();
  return work;
}

void HttpClient::give_back(std::unique_ptr<CurlWork> work) {
  const std::lock_guard lock(mutex_);
  if (idle_.size() < kIdleWorks) {
    idle_.push_back(std::move(work));
  }
}

void HttpClient::perform_once(std::span<HttpExchange*> exchanges) {
  std::vector<std::vector<std::string>> added;
  for (const HttpExchange* const exchange : exchanges) {
    std::vector<std::string>& fields = added.emplace_back();
    if (credential_) {
      fields = credential_(exchange->final_url, exchange->fields);
    }
    fields.emplace_back("Accept-Encoding: identity");
  }
  auto work = take();
  work->perform(exchanges, added, settings_, stop_);
  give_back(std::move(work));
}

bool HttpClient::leave_alone(const HttpExchange& exchange) {
  const auto seconds = seconds_to_wait(exchange.head);
  if (!seconds || *seconds > settings_.longest_wait) {
    return false;
  }
  const std::lock_guard lock(mutex_);
  Clock::time_point& until = not_before_[origin_of(exchange.final_url)];
  until = std::max(until, Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                             std::chrono::duration<double>(*seconds)));
  return true;
}

void HttpClient::wait_for_servers(std::span<HttpExchange*> exchanges) {
  const Clock::time_point now = Clock::now();
  Clock::time_point until = now;
  {
    const std::lock_guard lock(mutex_);
    for (const HttpExchange* const exchange : exchanges) {
      const auto found = not_before_.find(origin_of(exchange->final_url));
      until = found == not_before_.end() ? until : std::max(until, found->second);
    }
  }
  wait_or_stop(std::chrono::duration<double>(until - now).count(), stop_);
}

void HttpClient::perform(std::span<HttpExchange> exchanges) {
  std::vector<HttpExchange*> open;
  for (HttpExchange& exchange : exchanges) {
    exchange.final_url = exchange.url;
    open.push_back(&exchange);
  }
  bool has_waited = false;
  for (int redirects = 0; !open.empty();) {
    wait_for_servers(open);
    perform_once(open);
    std::vector<HttpExchange*> next;
    bool redirected = false;
    bool waits = false;
    for (HttpExchange* exchange : open) {
      if (!exchange->failure.empty()) {
        continue;
      }
      const bool will_pass = leave_alone(*exchange);
      const int status = exchange->head.status;
      if (is_redirect(status) && !is_elsewhere(exchange->head)) {
        follow(*exchange);
        redirected = true;
        next.push_back(exchange);
      } else if ((status == 429 || status == 503) && will_pass && !has_waited) {
        waits = true;
        next.push_back(exchange);
      }
    }
    if (redirected && ++redirects > settings_.redirects) {
      throw RemoteError("E-REMOTE-REDIRECT",
                        fmt::format("{}: more than {} redirects", shown_url(next.front()->url),
                                    settings_.redirects),
                        false);
    }
    has_waited = has_waited || waits;
    open = std::move(next);
  }
}

}  // namespace vindex::input
