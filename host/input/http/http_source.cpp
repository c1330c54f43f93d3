// Owns opening such a file, the bytes that are kept of its first answer, and the reading of ranges
// with their checks.
#include "http_source.hpp"

#include "http_ranges.hpp"

#include "core/integers.hpp"
#include "input/local/positional_read.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

namespace vindex::input {

namespace {

/// Small files are given by servers that know no ranges: lists of shards, tokenizers.
constexpr std::size_t kLargestWhole = std::size_t{32} << 20U;
constexpr std::size_t kMostAtOnce = 8;

class HttpSource final : public ByteSource {
 public:
  HttpSource(std::shared_ptr<HttpClient> client, HttpFile file)
      : client_(std::move(client)), file_(std::move(file)) {
    open();
  }

  const std::string& name() const override { return file_.name; }
  std::uint64_t size() const override { return opened_.bytes; }
  SourceIdentity identity_at_opening() const override { return opened_; }
  SourceIdentity identity() const override;
  void read_many(std::span<const ReadRequest> requests) override;
  void header_is_read() override {
    const std::lock_guard lock(mutex_);
    if (kept_.size() < opened_.bytes) {  // a whole file stays: it may be all that there is to have
      kept_ = {};
    }
  }

 private:
  void open();
  std::vector<ReadRequest> without_kept(std::span<const ReadRequest> requests);
  void read_parts(std::span<HttpRange> parts, bool resolved);
  bool check_head(const HttpHead& head, HttpRange& part, const std::string& tag) const;
  /// Where to ask, and the version that the answers must have.
  std::pair<std::string, std::string> url_and_tag(bool resolved) const {
    const std::lock_guard lock(mutex_);
    // Behind another redirect the same bytes may have another tag; a pinned URL vouches for them.
    return {resolved ? resolved_ : file_.url, resolved || !is_pinned() ? tag_ : std::string()};
  }
  bool is_pinned() const { return !file_.revision.empty(); }

  std::shared_ptr<HttpClient> client_;
  HttpFile file_;
  SourceIdentity opened_;
  mutable std::mutex mutex_;
  std::string tag_;              ///< of the answers
  std::string resolved_;         ///< behind the redirects: asked until it is refused
  std::vector<std::byte> kept_;  ///< the first bytes
};

void HttpSource::open() {
  bool whole = false;
  std::optional<ContentRange> range;
  std::string fault;
  HttpExchange exchange;
  exchange.url = file_.url;
  exchange.fields = {range_field(0, kFirstHttpBytes)};
  exchange.begin = [&](const HttpHead& head) {
    kept_.clear();
    range = content_range(head);
    whole = head.status == 200;
    if (whole || head.status == 206) {
      fault = fault_of_content(head);
      if (fault.empty() && !whole &&
          (!range || range->first != 0 ||
           range->last != std::min(kFirstHttpBytes, range->total) - 1)) {
        fault = "the server sends another range than was asked for";
      }
      return fault.empty();
    }
    return false;
  };
  exchange.body = [&](std::span<const std::byte> data) {
    const std::size_t most = whole ? kLargestWhole : static_cast<std::size_t>(range->last + 1);
    if (data.size() > most - kept_.size()) {
      fault = whole ? "the server sends all of a large file where a part was asked for: it knows "
                      "no ranges"
                    : "the server sends more bytes than were asked for";
      return false;
    }
    kept_.insert(kept_.end(), data.begin(), data.end());
    return true;
  };
  client_->perform(std::span(&exchange, 1));
  check_failure(file_.name, exchange.failure);
  if (!fault.empty()) {
    throw_answer(file_.name, fault);
  }
  const HttpHead& head = exchange.head;
  const std::string* const unsatisfied = head.find("content-range");
  if (head.status == 416 && unsatisfied != nullptr && *unsatisfied == "bytes */0") {
    opened_ = {0, version_of_head(head)};
  } else if (head.status == 200) {
    opened_ = {kept_.size(), version_of_head(head)};
  } else if (head.status == 206) {
    if (kept_.size() != range->last + 1) {
      throw_ended_early(file_.name);
    }
    opened_ = {range->total, version_of_head(head)};
  } else {
    throw_status(file_, head);
  }
  resolved_ = exchange.final_url;
  tag_ = opened_.version;
  if (is_pinned()) {
    opened_.version = file_.revision;
  }
}

SourceIdentity HttpSource::identity() const {
  if (is_pinned()) {
    return opened_;
  }
  HttpExchange exchange;
  exchange.url = file_.url;
  exchange.fields = {range_field(0, 1)};
  exchange.begin = [](const HttpHead& head) { return head.status == 206; };
  exchange.body = [received = std::size_t{0}](std::span<const std::byte> data) mutable {
    received += data.size();
    return received <= 1;
  };
  client_->perform(std::span(&exchange, 1));
  check_failure(file_.name, exchange.failure);
  const HttpHead& head = exchange.head;
  SourceIdentity now{opened_.bytes, version_of_head(head)};
  if (const auto range = content_range(head); head.status == 206 && range) {
    now.bytes = range->total;
  } else if (head.status == 200) {
    const std::string* const length = head.find("content-length");
    if (length != nullptr) {
      std::from_chars(length->data(), length->data() + length->size(), now.bytes);
    }
  } else if (head.status == 416) {
    now.bytes = 0;
  } else {
    throw_status(file_, head);
  }
  return now;
}

/// Copies what is kept; what is left, by offset.
std::vector<ReadRequest> HttpSource::without_kept(std::span<const ReadRequest> requests) {
  std::vector<ReadRequest> left;
  const std::lock_guard lock(mutex_);
  for (ReadRequest request : requests) {
    const auto end = checked_add(request.offset, request.into.size());
    if (!end || *end > opened_.bytes) {
      throw_truncated(file_.name, request.offset, request.into.size(), opened_.bytes);
    }
    if (request.offset < kept_.size() && !request.into.empty()) {
      const auto at = static_cast<std::size_t>(request.offset);
      const std::size_t bytes = std::min(request.into.size(), kept_.size() - at);
      std::memcpy(request.into.data(), kept_.data() + at, bytes);
      request = {request.offset + bytes, request.into.subspan(bytes)};
    }
    if (!request.into.empty()) {
      left.push_back(request);
    }
  }
  std::stable_sort(left.begin(), left.end(),
                   [](const ReadRequest& a, const ReadRequest& b) { return a.offset < b.offset; });
  return left;
}

/// Whether the body is what `part` waits for; else says in it what is wrong. `tag`: its version;
/// empty: any.
bool HttpSource::check_head(const HttpHead& head, HttpRange& part, const std::string& tag) const {
  part.received = 0;
  part.current = 0;
  part.fault.clear();
  part.changed = head.status == 412 || head.status == 416;
  if (head.status == 200) {
    part.fault = is_page(head) ? fault_of_content(head)
                               : "the server sends the whole file where a part was asked for";
    return false;
  }
  if (head.status != 206) {
    return false;  // judged by its status
  }
  part.fault = fault_of_content(head);
  const auto range = content_range(head);
  if (part.fault.empty() &&
      (!range || range->first != part.offset || range->last != part.offset + part.bytes - 1)) {
    part.fault = "the server sends another range than was asked for";
  }
  part.changed = range && part.fault.empty() &&
                 (range->total != opened_.bytes || (!tag.empty() && version_of_head(head) != tag));
  return part.fault.empty() && !part.changed;
}

void HttpSource::read_parts(std::span<HttpRange> parts, bool resolved) {
  const auto [asked, tag] = url_and_tag(resolved);
  std::vector<HttpExchange> exchanges(parts.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    HttpRange& part = parts[i];
    HttpExchange& exchange = exchanges[i];
    exchange.url = asked;
    exchange.fields = {range_field(part.offset, part.bytes)};
    // A weak tag matches nothing, and a server that redirects has tags of its own.
    if (!is_pinned() && resolved && asked == file_.url && opened_.version.starts_with('"')) {
      exchange.fields.push_back("If-Match: " + opened_.version);
    }
    exchange.begin = [&, tag = tag](const HttpHead& head) { return check_head(head, part, tag); };
    exchange.body = [&](std::span<const std::byte> data) { return part.take(data); };
  }
  client_->perform(exchanges);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const HttpExchange& exchange = exchanges[i];
    const HttpRange& part = parts[i];
    check_failure(file_.name, exchange.failure);
    if (part.changed) {
      throw_changed(file_.name);
    }
    if (!part.fault.empty()) {
      throw_answer(file_.name, part.fault);
    }
    const int status = exchange.head.status;
    const bool expired = status == 401 || status == 403 || status == 404 || status == 410;
    if (expired && resolved && asked != file_.url) {
      return read_parts(parts, false);  // a signed address expires: the one behind which it lay
    }
    if (status != 206) {
      throw_status(file_, exchange.head);
    }
    if (part.received != part.bytes) {
      throw_ended_early(file_.name);
    }
  }
  if (!resolved) {
    const std::lock_guard lock(mutex_);
    resolved_ = exchanges.front().final_url;
    tag_ = version_of_head(exchanges.front().head);
  }
}

void HttpSource::read_many(std::span<const ReadRequest> requests) {
  std::vector<HttpRange> parts = http_ranges(without_kept(requests));
  for (std::size_t i = 0; i < parts.size(); i += kMostAtOnce) {
    read_parts(std::span(parts).subspan(i, std::min(kMostAtOnce, parts.size() - i)), true);
  }
}

}  // namespace

std::unique_ptr<ByteSource> open_http_source(std::shared_ptr<HttpClient> client, HttpFile file) {
  return std::make_unique<HttpSource>(std::move(client), std::move(file));
}

MemberState http_state(HttpClient& client, const HttpFile& file) {
  HttpExchange exchange;
  exchange.url = file.url;
  exchange.fields = {range_field(0, 1)};
  exchange.begin = [](const HttpHead&) { return false; };
  exchange.body = [](std::span<const std::byte>) { return false; };
  client.perform(std::span(&exchange, 1));
  check_failure(file.name, exchange.failure);
  const int status = exchange.head.status;
  MemberState state;
  if (status == 403 || status == 404 || status == 410) {
    return state;
  }
  if (status != 200 && status != 206 && status != 416) {
    throw_status(file, exchange.head);
  }
  state.presence = MemberState::Presence::kPresent;
  return state;
}

std::string http_text(HttpClient& client, const HttpFile& file, std::size_t most) {
  std::string text;
  bool is_long = false;
  HttpExchange exchange;
  exchange.url = file.url;
  exchange.begin = [&](const HttpHead& head) {
    text.clear();
    return head.status == 200;
  };
  exchange.body = [&](std::span<const std::byte> data) {
    is_long = data.size() > most - text.size();
    if (!is_long) {
      text.append(reinterpret_cast<const char*>(data.data()), data.size());
    }
    return !is_long;
  };
  client.perform(std::span(&exchange, 1));
  check_failure(file.name, exchange.failure);
  if (exchange.head.status != 200) {
    throw_status(file, exchange.head);
  }
  if (const std::string fault = fault_of_content(exchange.head); !fault.empty() || is_long) {
    throw_answer(file.name, is_long ? "the answer is too long" : fault);
  }
  return text;
}

}  // namespace vindex::input
