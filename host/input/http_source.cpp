#include "http_source.hpp"

#include "positional_read.hpp"

#include "core/integers.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

namespace vindex::input {

namespace {

constexpr std::uint64_t kFirstBytes = std::uint64_t{128} << 10U;
/// Small files are given by servers that know no ranges: lists of shards, tokenizers.
constexpr std::size_t kLargestWhole = std::size_t{32} << 20U;
/// Two requests side by side for what one unit of work reads at once.
constexpr std::uint64_t kLargestRange = std::uint64_t{32} << 20U;
/// A round trip costs more than so many bytes.
constexpr std::uint64_t kLargestGap = std::uint64_t{64} << 10U;
constexpr std::size_t kMostAtOnce = 8;

[[noreturn]] void throw_answer(const std::string& name, const std::string& why) {
  throw RemoteError("E-REMOTE-ANSWER", fmt::format("{}: {}", name, why), false);
}

[[noreturn]] void throw_changed(const std::string& name) {
  throw SystemError("E-INPUT-CHANGED", 0,
                    name + ": the file on the server is another one than when it was opened");
}

/// Throws what a status that is no success means.
[[noreturn]] void throw_status(const std::string& name, const HttpHead& head) {
  const int status = head.status;
  if (status == 404 || status == 410) {
    throw MissingInputError("E-FILE-MISSING",
                            fmt::format("{}: the server has no such file ({})", name, status));
  }
  if (status == 401 || status == 403) {
    const std::string* const code = head.find("x-error-code");
    throw RemoteError(
        "E-REMOTE-DENIED",
        fmt::format("{}: the server answers {}{}: {}", name, status,
                    code == nullptr ? "" : " (" + excerpt(*code) + ")",
                    status == 401 ? "it wants credentials, or those given are not valid"
                                  : "reading it is not allowed"),
        false);
  }
  if (status == 408 || status == 425 || status == 429 || status >= 500) {
    const auto wait = seconds_to_wait(head);
    throw RemoteError("E-REMOTE-BUSY",
                      fmt::format("{}: the server answers {}{}", name, status,
                                  wait ? fmt::format(" and asks to wait {:.0f} s", *wait) : ""),
                      true);
  }
  throw_answer(name, fmt::format("the server answers {}", status));
}

void check_failure(const std::string& name, const HttpExchange& exchange) {
  if (!exchange.failure.empty()) {
    throw RemoteError("E-REMOTE-READ", fmt::format("{}: {}", name, excerpt(exchange.failure)),
                      true);
  }
}

/// What "bytes FIRST-LAST/TOTAL" says.
struct ContentRange {
  std::uint64_t first = 0, last = 0, total = 0;
};

std::optional<ContentRange> content_range(const HttpHead& head) {
  const std::string* const field = head.find("content-range");
  if (field == nullptr || !field->starts_with("bytes ")) {
    return std::nullopt;
  }
  ContentRange range;
  const char* at = field->data() + 6;
  const char* const end = field->data() + field->size();
  for (const auto& [value, behind] :
       {std::pair{&range.first, '-'}, std::pair{&range.last, '/'}, std::pair{&range.total, '\0'}}) {
    const auto [stop, error] = std::from_chars(at, end, *value);
    if (error != std::errc() || (behind == '\0' ? stop != end : stop == end || *stop != behind)) {
      return std::nullopt;
    }
    at = stop + 1;
  }
  return range.first <= range.last && range.last < range.total ? std::optional(range)
                                                               : std::nullopt;
}

bool is_encoded(const HttpHead& head) {
  const std::string* const encoding = head.find("content-encoding");
  return encoding != nullptr && !encoding->empty() && *encoding != "identity";
}

bool is_page(const HttpHead& head) {
  const std::string* const type = head.find("content-type");
  return type != nullptr && type->starts_with("text/html");
}

/// What is wrong with a success as the bytes of a file; empty where nothing is.
std::string fault_of_content(const HttpHead& head) {
  if (is_encoded(head)) {
    return fmt::format("the server sends the file encoded ({}), which was not asked for",
                       excerpt(*head.find("content-encoding")));
  }
  return is_page(head) ? "the server sends an HTML page, not the file" : "";
}

std::string version_of_head(const HttpHead& head) {
  if (const std::string* tag = head.find("etag")) {
    return *tag;
  }
  const std::string* const date = head.find("last-modified");
  return date == nullptr ? std::string() : *date;
}

std::string range_field(std::uint64_t first, std::uint64_t bytes) {
  return fmt::format("Range: bytes={}-{}", first, first + bytes - 1);
}

/// One range asked for, and where its bytes go.
struct Part {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::vector<ReadRequest> into;  ///< by offset, within the range
  std::uint64_t received = 0;
  std::size_t current = 0;  ///< the first of `into` that is not full
  std::string fault;        ///< of the answer
  bool changed = false;

  /// Takes the next bytes; false: there are more than were asked for.
  bool take(std::span<const std::byte> data) {
    if (data.size() > bytes - received) {
      fault = "the server sends more bytes than were asked for";
      return false;
    }
    const std::uint64_t begin = offset + received;
    const std::uint64_t end = begin + data.size();
    for (std::size_t i = current; i < into.size() && into[i].offset < end; ++i) {
      const ReadRequest& request = into[i];
      const std::uint64_t request_end = request.offset + request.into.size();
      const std::uint64_t from = std::max(begin, request.offset);
      const std::uint64_t to = std::min(end, request_end);
      if (from < to) {
        std::memcpy(request.into.data() + (from - request.offset), data.data() + (from - begin),
                    static_cast<std::size_t>(to - from));
      }
      if (i == current && request_end <= end) {
        ++current;
      }
    }
    received += data.size();
    return true;
  }
};

/// `requests` (by offset) as ranges: neighbours together, large ones cut.
std::vector<Part> parts_of(const std::vector<ReadRequest>& requests) {
  std::vector<Part> parts;
  for (ReadRequest request : requests) {
    while (!request.into.empty()) {
      bool joins = false;
      if (!parts.empty()) {
        const Part& last = parts.back();
        const std::uint64_t end = last.offset + last.bytes;
        joins = request.offset <= end + kLargestGap &&
                request.offset < last.offset + kLargestRange && request.offset >= last.offset;
      }
      if (!joins) {
        parts.push_back({.offset = request.offset, .into = {}, .fault = {}});
      }
      Part& part = parts.back();
      const std::uint64_t room = part.offset + kLargestRange - request.offset;
      const std::size_t bytes =
          static_cast<std::size_t>(std::min<std::uint64_t>(room, request.into.size()));
      part.into.push_back({request.offset, request.into.first(bytes)});
      part.bytes = std::max(part.bytes, request.offset + bytes - part.offset);
      request = {request.offset + bytes, request.into.subspan(bytes)};
    }
  }
  return parts;
}

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
  void read_parts(std::span<Part> parts, bool resolved);
  bool check_head(const HttpHead& head, Part& part, const std::string& tag) const;
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
  exchange.fields = {range_field(0, kFirstBytes)};
  exchange.begin = [&](const HttpHead& head) {
    kept_.clear();
    range = content_range(head);
    whole = head.status == 200;
    if (whole || head.status == 206) {
      fault = fault_of_content(head);
      if (fault.empty() && !whole &&
          (!range || range->first != 0 || range->last != std::min(kFirstBytes, range->total) - 1)) {
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
  check_failure(file_.name, exchange);
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
      throw RemoteError("E-REMOTE-READ", file_.name + ": the answer ended early", true);
    }
    opened_ = {range->total, version_of_head(head)};
  } else {
    throw_status(file_.name, head);
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
  check_failure(file_.name, exchange);
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
    throw_status(file_.name, head);
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
bool HttpSource::check_head(const HttpHead& head, Part& part, const std::string& tag) const {
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

void HttpSource::read_parts(std::span<Part> parts, bool resolved) {
  const auto [asked, tag] = url_and_tag(resolved);
  std::vector<HttpExchange> exchanges(parts.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    Part& part = parts[i];
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
    const Part& part = parts[i];
    check_failure(file_.name, exchange);
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
      throw_status(file_.name, exchange.head);
    }
    if (part.received != part.bytes) {
      throw RemoteError("E-REMOTE-READ", file_.name + ": the answer ended early", true);
    }
  }
  if (!resolved) {
    const std::lock_guard lock(mutex_);
    resolved_ = exchanges.front().final_url;
    tag_ = version_of_head(exchanges.front().head);
  }
}

void HttpSource::read_many(std::span<const ReadRequest> requests) {
  std::vector<Part> parts = parts_of(without_kept(requests));
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
  check_failure(file.name, exchange);
  const int status = exchange.head.status;
  MemberState state;
  if (status == 403 || status == 404 || status == 410) {
    return state;
  }
  if (status != 200 && status != 206 && status != 416) {
    throw_status(file.name, exchange.head);
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
  check_failure(file.name, exchange);
  if (exchange.head.status != 200) {
    throw_status(file.name, exchange.head);
  }
  if (const std::string fault = fault_of_content(exchange.head); !fault.empty() || is_long) {
    throw_answer(file.name, is_long ? "the answer is too long" : fault);
  }
  return text;
}

}  // namespace vindex::input
