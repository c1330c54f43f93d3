// Owns the transfers of libcurl's multi interface: their options, the heads and bodies that come
// in, and how a transfer ends.
#include "curl_exchange.hpp"

#include "curl_library.hpp"

#include "core/process/stop.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <deque>
#include <string_view>
#include <utility>

namespace vindex::input {

namespace {

/// An answer's head may have so many bytes; those of the Hub have 3 KB.
constexpr std::size_t kLargestHead = std::size_t{128} << 10U;
/// Between two looks whether a stop was requested.
constexpr int kPollMilliseconds = 100;

std::string trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  const std::size_t end = text.find_last_not_of(" \t\r\n");
  return begin == std::string_view::npos ? std::string()
                                         : std::string(text.substr(begin, end + 1 - begin));
}

/// One transfer under way; its handle goes back to the work that it is of.
class Transfer {
 public:
  Transfer(CURLM* multi, CURL* easy, HttpExchange& exchange)
      : exchange_(&exchange), multi_(multi), easy_(easy) {}
  ~Transfer() {
    curl_library().curl_multi_remove_handle(multi_, easy_);
    curl_library().curl_slist_free_all(fields_);
  }
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  void begin(const std::vector<std::string>& added, const HttpSettings& settings);
  void end(CURLcode code);
  CURL* easy() const { return easy_; }

 private:
  static std::size_t on_head(char* data, std::size_t size, std::size_t count, void* user);
  static std::size_t on_body(char* data, std::size_t size, std::size_t count, void* user);

  HttpExchange* exchange_;
  CURLM* multi_;
  CURL* easy_;
  curl_slist* fields_ = nullptr;
  std::size_t head_bytes_ = 0;
  bool begun_ = false;
};

std::size_t Transfer::on_head(char* data, std::size_t size, std::size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  HttpHead& head = transfer.exchange_->head;
  const std::string_view line(data, size * count);
  transfer.head_bytes_ += line.size();
  if (transfer.head_bytes_ > kLargestHead) {
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

std::size_t Transfer::on_body(char* data, std::size_t size, std::size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  HttpExchange& exchange = *transfer.exchange_;
  const std::size_t bytes = size * count;
  if (!transfer.begun_) {
    transfer.begun_ = true;
    exchange.refused = is_redirect(exchange.head.status) || !exchange.begin(exchange.head);
  }
  exchange.refused = exchange.refused || !exchange.body(std::as_bytes(std::span(data, bytes)));
  return exchange.refused ? 0 : bytes;
}

void Transfer::begin(const std::vector<std::string>& added, const HttpSettings& settings) {
  const CurlFunctions& curl = curl_library();
  HttpExchange& exchange = *exchange_;
  exchange.head = {};
  exchange.refused = false;
  exchange.failure.clear();
  curl.curl_easy_reset(easy_);
  const auto add = [&](const std::vector<std::string>& list) {
    for (const std::string& field : list) {
      fields_ = curl.curl_slist_append(fields_, field.c_str());
    }
  };
  add(exchange.fields);
  add(added);
  const auto set = [&](CURLoption option, auto value) {
    curl.curl_easy_setopt(easy_, option, value);
  };
  set(CURLOPT_URL, exchange.final_url.c_str());
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_FOLLOWLOCATION, 0L);
  set(CURLOPT_PATH_AS_IS, 1L);  // what is signed is what is asked for
  set(CURLOPT_HTTPHEADER, fields_);
  set(CURLOPT_USERAGENT, "vindex");
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_QUICK_EXIT, 1L);  // a stop does not wait for a name server
  set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(settings.connect_seconds * 1000));
  set(CURLOPT_LOW_SPEED_LIMIT, settings.stall_bytes);
  set(CURLOPT_LOW_SPEED_TIME, static_cast<long>(settings.stall_seconds));
  set(CURLOPT_TCP_KEEPALIVE, 1L);
  set(CURLOPT_BUFFERSIZE, 512L << 10U);
  set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_2TLS));
  if (!settings.authorities.empty()) {
    set(CURLOPT_CAINFO, settings.authorities.c_str());
  }
  set(CURLOPT_HEADERFUNCTION, &on_head);
  set(CURLOPT_HEADERDATA, static_cast<void*>(this));
  set(CURLOPT_WRITEFUNCTION, &on_body);
  set(CURLOPT_WRITEDATA, static_cast<void*>(this));
  curl.curl_multi_add_handle(multi_, easy_);
}

void Transfer::end(CURLcode code) {
  HttpExchange& exchange = *exchange_;
  if (code != CURLE_OK && !exchange.refused) {
    exchange.failure = head_bytes_ > kLargestHead ? "the head of the answer has no end"
                                                  : curl_library().curl_easy_strerror(code);
  } else if (!begun_ && !is_redirect(exchange.head.status)) {
    exchange.refused = !exchange.begin(exchange.head);  // an answer without a body
  }
}

}  // namespace

CurlWork::CurlWork() : multi_(curl_library().curl_multi_init()) {}

CurlWork::~CurlWork() {
  for (CURL* handle : easy_) {
    curl_library().curl_easy_cleanup(handle);
  }
  curl_library().curl_multi_cleanup(multi_);
}

void CurlWork::perform(std::span<HttpExchange*> exchanges,
                       const std::vector<std::vector<std::string>>& added,
                       const HttpSettings& settings, const std::stop_token& stop) {
  const CurlFunctions& curl = curl_library();
  while (multi_ != nullptr && easy_.size() < exchanges.size()) {
    CURL* const handle = curl.curl_easy_init();
    if (handle == nullptr) {
      break;
    }
    easy_.push_back(handle);
  }
  if (multi_ == nullptr || easy_.size() < exchanges.size()) {
    throw RemoteError("E-REMOTE-READ", "libcurl has no memory for a request", true);
  }
  std::deque<Transfer> transfers;
  for (std::size_t i = 0; i < exchanges.size(); ++i) {
    transfers.emplace_back(multi_, easy_[i], *exchanges[i]).begin(added[i], settings);
  }
  int running = 1;
  CURLMcode failed = CURLM_OK;
  while (running > 0 && failed == CURLM_OK) {
    throw_if_stopped(stop);
    failed = curl.curl_multi_perform(multi_, &running);
    if (failed == CURLM_OK && running > 0) {
      failed = curl.curl_multi_poll(multi_, nullptr, 0, kPollMilliseconds, nullptr);
    }
  }
  int left = 0;
  while (CURLMsg* message = curl.curl_multi_info_read(multi_, &left)) {
    const auto transfer = std::find_if(
        transfers.begin(), transfers.end(),
        [&](const Transfer& candidate) { return candidate.easy() == message->easy_handle; });
    if (message->msg == CURLMSG_DONE && transfer != transfers.end()) {
      transfer->end(message->data.result);
    }
  }
  if (failed != CURLM_OK) {
    throw RemoteError("E-REMOTE-READ", curl.curl_multi_strerror(failed), true);
  }
}

}  // namespace vindex::input
