#include "http_client.hpp"

#include "curl_library.hpp"

#include "core/stop.hpp"
#include "core/stoppable_wait.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <ctime>
#include <utility>

namespace vindex::input {

/// Its easy handles are reused; connections belong to `multi`.
struct CurlWork {
  CURLM* multi = nullptr;
  std::vector<CURL*> easy;
  CurlWork() : multi(curl_library().curl_multi_init()) {}
  ~CurlWork() {
    for (CURL* handle : easy) {
      curl_library().curl_easy_cleanup(handle);
    }
    curl_library().curl_multi_cleanup(multi);
  }
  CurlWork(const CurlWork&) = delete;
  CurlWork& operator=(const CurlWork&) = delete;
};

namespace {

/// An answer's head may have so many bytes; those of the Hub have 3 KB.
constexpr std::size_t kLargestHead = std::size_t{128} << 10U;
constexpr std::size_t kIdleWorks = 16;
/// Between two looks whether a stop was requested.
constexpr int kPollMilliseconds = 100;

std::string small_letters(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return text;
}

std::string trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  const std::size_t end = text.find_last_not_of(" \t\r\n");
  return begin == std::string_view::npos ? std::string()
                                         : std::string(text.substr(begin, end + 1 - begin));
}

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

std::optional<double> number_of(std::string_view text) {
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && stop == text.data() + text.size() && value >= 0
             ? std::optional(value)
             : std::nullopt;
}

/// One transfer under way.
struct Transfer {
  HttpExchange* exchange = nullptr;
  CURL* easy = nullptr;
  curl_slist* fields = nullptr;
  std::size_t head_bytes = 0;
  bool begun = false;
};

std::size_t on_head(char* data, std::size_t size, std::size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  HttpHead& head = transfer.exchange->head;
  const std::string_view line(data, size * count);
  transfer.head_bytes += line.size();
  if (transfer.head_bytes > kLargestHead) {
    return 0;
  }
  if (line.starts_with("HTTP/")) {
    // A new head: what came before was "100 Continue" or a proxy's.
    head = {};
    const std::size_t space = line.find(' ');
    if (space != std::string_view::npos && line.size() >= space + 4) {
      std::from_chars(line.data() + space + 1, line.data() + space + 4, head.status);
    }
    return line.size();
  }
  if (const std::size_t colon = line.find(':'); colon != std::string_view::npos) {
    head.fields[small_letters(trimmed(line.substr(0, colon)))] = trimmed(line.substr(colon + 1));
  }
  return line.size();
}

std::size_t on_body(char* data, std::size_t size, std::size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  HttpExchange& exchange = *transfer.exchange;
  const std::size_t bytes = size * count;
  if (!transfer.begun) {
    transfer.begun = true;
    exchange.refused = is_redirect(exchange.head.status) || !exchange.begin(exchange.head);
  }
  exchange.refused = exchange.refused || !exchange.body(std::as_bytes(std::span(data, bytes)));
  return exchange.refused ? 0 : bytes;
}

}  // namespace

HttpLimits http_limits_of_environment() {
  HttpLimits limits;
  const char* const text = std::getenv("HF_HUB_DOWNLOAD_TIMEOUT");
  const auto seconds = text == nullptr ? std::nullopt : number_of(text);
  if (seconds && *seconds >= 1 && *seconds <= 3600) {
    limits.stall_seconds = static_cast<long>(*seconds);
  }
  return limits;
}

std::string origin_of(const std::string& url) {
  const std::size_t end = url.find("://");
  const std::string scheme = small_letters(url.substr(0, end));
  if (end == std::string::npos || (scheme != "http" && scheme != "https")) {
    return std::string();
  }
  std::string host = url.substr(end + 3);
  host = small_letters(host.substr(0, host.find_first_of("/?#\\")));
  if (host.empty() || host.find('@') != std::string::npos) {
    return std::string();
  }
  const std::size_t colon = host.rfind(':');
  const bool has_port = colon != std::string::npos && host.find(']', colon) == std::string::npos;
  return scheme + "://" + host + (has_port ? "" : scheme == "https" ? ":443" : ":80");
}

std::optional<double> seconds_to_wait(const HttpHead& head) {
  if (const std::string* after = head.find("retry-after")) {
    if (const auto seconds = number_of(*after)) {
      return seconds;
    }
    std::tm date = {};
    if (::strptime(after->c_str(), "%a, %d %b %Y %H:%M:%S GMT", &date) != nullptr) {
      return std::max(0.0, std::difftime(::timegm(&date), std::time(nullptr)));
    }
  }
  if (const std::string* rate = head.find("ratelimit")) {
    if (const std::size_t at = rate->find(";t="); at != std::string::npos) {
      const std::string rest = rate->substr(at + 3);
      return number_of(rest.substr(0, rest.find_first_not_of("0123456789")));
    }
  }
  return std::nullopt;
}

HttpClient::HttpClient(const HttpLimits& limits, HttpCredential credential, std::stop_token stop)
    : limits_(limits), credential_(std::move(credential)), stop_(std::move(stop)) {}

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
  const CurlFunctions& curl = curl_library();
  auto work = take();
  while (work->multi != nullptr && work->easy.size() < exchanges.size()) {
    CURL* const handle = curl.curl_easy_init();
    if (handle == nullptr) {
      break;
    }
    work->easy.push_back(handle);
  }
  if (work->multi == nullptr || work->easy.size() < exchanges.size()) {
    throw RemoteError("E-REMOTE-READ", "libcurl has no memory for a request", true);
  }
  std::vector<Transfer> transfers(exchanges.size());
  for (std::size_t i = 0; i < exchanges.size(); ++i) {
    HttpExchange& exchange = *exchanges[i];
    Transfer& transfer = transfers[i];
    exchange.head = {};
    exchange.refused = false;
    exchange.failure.clear();
    transfer.exchange = &exchange;
    transfer.easy = work->easy[i];
    CURL* const easy = transfer.easy;
    curl.curl_easy_reset(easy);
    std::vector<std::string> fields = exchange.fields;
    fields.emplace_back("Accept-Encoding: identity");
    if (!credential_.bearer.empty() && credential_.origin.starts_with("https://") &&
        origin_of(exchange.final_url) == credential_.origin) {
      fields.push_back("Authorization: Bearer " + credential_.bearer);
    }
    for (const std::string& field : fields) {
      transfer.fields = curl.curl_slist_append(transfer.fields, field.c_str());
    }
    const auto set = [&](CURLoption option, auto value) {
      curl.curl_easy_setopt(easy, option, value);
    };
    set(CURLOPT_URL, exchange.final_url.c_str());
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_FOLLOWLOCATION, 0L);
    set(CURLOPT_HTTPHEADER, transfer.fields);
    set(CURLOPT_USERAGENT, "vindex");
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_QUICK_EXIT, 1L);  // a stop does not wait for a name server
    set(CURLOPT_CONNECTTIMEOUT, limits_.connect_seconds);
    set(CURLOPT_LOW_SPEED_LIMIT, limits_.stall_bytes);
    set(CURLOPT_LOW_SPEED_TIME, limits_.stall_seconds);
    set(CURLOPT_TCP_KEEPALIVE, 1L);
    set(CURLOPT_BUFFERSIZE, 512L << 10U);
    set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_2TLS));
    if (const char* const authorities = std::getenv("SSL_CERT_FILE");
        authorities != nullptr && *authorities != '\0') {
      set(CURLOPT_CAINFO, authorities);
    }
    set(CURLOPT_HEADERFUNCTION, &on_head);
    set(CURLOPT_HEADERDATA, static_cast<void*>(&transfer));
    set(CURLOPT_WRITEFUNCTION, &on_body);
    set(CURLOPT_WRITEDATA, static_cast<void*>(&transfer));
    curl.curl_multi_add_handle(work->multi, easy);
  }
  int running = 1;
  CURLMcode failed = CURLM_OK;
  while (running > 0 && failed == CURLM_OK && !stop_.stop_requested()) {
    failed = curl.curl_multi_perform(work->multi, &running);
    if (failed == CURLM_OK && running > 0) {
      failed = curl.curl_multi_poll(work->multi, nullptr, 0, kPollMilliseconds, nullptr);
    }
  }
  int left = 0;
  while (CURLMsg* message = curl.curl_multi_info_read(work->multi, &left)) {
    const auto transfer = std::find_if(
        transfers.begin(), transfers.end(),
        [&](const Transfer& candidate) { return candidate.easy == message->easy_handle; });
    if (message->msg != CURLMSG_DONE || transfer == transfers.end()) {
      continue;
    }
    HttpExchange& exchange = *transfer->exchange;
    const CURLcode code = message->data.result;
    if (code != CURLE_OK && !exchange.refused) {
      exchange.failure = transfer->head_bytes > kLargestHead ? "the head of the answer has no end"
                                                             : curl.curl_easy_strerror(code);
    } else if (!transfer->begun && !is_redirect(exchange.head.status)) {
      exchange.refused = !exchange.begin(exchange.head);  // an answer without a body
    }
  }
  for (Transfer& transfer : transfers) {
    curl.curl_multi_remove_handle(work->multi, transfer.easy);
    curl.curl_slist_free_all(transfer.fields);
  }
  throw_if_stopped(stop_);  // what was broken off ends with its connections, here
  if (failed != CURLM_OK) {
    throw RemoteError("E-REMOTE-READ", curl.curl_multi_strerror(failed), true);
  }
  give_back(std::move(work));
}

namespace {

/// Where `location` leads from `base`: an absolute URL, "//host/path", "/path" or a relative one.
std::string url_behind(const std::string& base, const std::string& location) {
  if (location.find("://") < location.find_first_of("/?#")) {
    return location;
  }
  const std::size_t host = base.find("://") + 3;
  if (location.starts_with("//")) {
    return base.substr(0, host - 2) + location;
  }
  const std::string root = base.substr(0, base.find_first_of("/?#", host));
  if (location.starts_with('/')) {
    return root + location;
  }
  const std::string path = base.substr(0, base.find_first_of("?#"));
  const std::size_t slash = path.rfind('/');
  return (slash < host ? root + "/" : path.substr(0, slash + 1)) + location;
}

/// What stands behind ? may be a secret.
std::string shown_url(const std::string& url) { return printable(url.substr(0, url.find('?'))); }

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

void HttpClient::perform(std::span<HttpExchange> exchanges) {
  std::vector<HttpExchange*> open;
  for (HttpExchange& exchange : exchanges) {
    exchange.final_url = exchange.url;
    open.push_back(&exchange);
  }
  bool has_waited = false;
  for (int redirects = 0; !open.empty();) {
    perform_once(open);
    std::vector<HttpExchange*> next;
    double wait = 0;
    bool redirected = false;
    bool waits = false;
    for (HttpExchange* exchange : open) {
      if (!exchange->failure.empty()) {
        continue;
      }
      if (is_redirect(exchange->head.status)) {
        follow(*exchange);
        redirected = true;
        next.push_back(exchange);
      } else if (exchange->head.status == 429 || exchange->head.status == 503) {
        const auto seconds = seconds_to_wait(exchange->head);
        if (seconds && *seconds <= limits_.longest_wait && !has_waited) {
          wait = std::max(wait, *seconds);
          waits = true;
          next.push_back(exchange);
        }
      }
    }
    if (redirected && ++redirects > limits_.redirects) {
      throw RemoteError("E-REMOTE-REDIRECT",
                        fmt::format("{}: more than {} redirects", shown_url(next.front()->url),
                                    limits_.redirects),
                        false);
    }
    if (waits) {
      has_waited = true;
      wait_or_stop(wait, stop_);
    }
    open = std::move(next);
  }
}

}  // namespace vindex::input
