// Owns what is read off the head of an answer (status, range, encoding, version) and the error that
// each failure becomes.
#include "http_answer.hpp"

#include <vindex/error.hpp>

#include <fmt/format.h>

#include <charconv>
#include <utility>

namespace vindex::input {

void throw_answer(const std::string& name, const std::string& why) {
  throw RemoteError("E-REMOTE-ANSWER", fmt::format("{}: {}", name, why), false);
}

void throw_changed(const std::string& name) {
  throw SystemError("E-INPUT-CHANGED", 0,
                    name + ": the file on the server is another one than when it was opened");
}

void throw_ended_early(const std::string& name) {
  throw RemoteError("E-REMOTE-READ", name + ": the answer ended early", true);
}

void throw_status(const HttpFile& file, const HttpHead& head) {
  const int status = head.status;
  if (status == 404 || status == 410) {
    throw MissingInputError("E-FILE-MISSING",
                            fmt::format("{}: the server has no such file ({})", file.name, status));
  }
  const std::string* const region = head.find("x-amz-bucket-region");
  if (region != nullptr && (is_redirect(status) || status == 400)) {
    throw RemoteError("E-S3-REGION",
                      fmt::format("{}: the bucket is in the region {}: set AWS_REGION={}",
                                  file.name, excerpt(*region), excerpt(*region)),
                      false);
  }
  if (status == 401 || status == 403) {
    const std::string* const code = head.find("x-error-code");
    throw RemoteError(
        "E-REMOTE-DENIED",
        fmt::format("{}: the server answers {}{}: {}{}", file.name, status,
                    code == nullptr ? "" : " (" + excerpt(*code) + ")",
                    status == 401 ? "it wants credentials, or those given are not valid"
                                  : "reading it is not allowed",
                    file.hint),
        false);
  }
  if (status == 408 || status == 425 || status == 429 || status >= 500) {
    const auto wait = seconds_to_wait(head);
    throw RemoteError("E-REMOTE-BUSY",
                      fmt::format("{}: the server answers {}{}", file.name, status,
                                  wait ? fmt::format(" and asks to wait {:.0f} s", *wait) : ""),
                      true);
  }
  throw_answer(file.name, fmt::format("the server answers {}", status));
}

void check_failure(const std::string& name, const std::string& failure) {
  if (!failure.empty()) {
    throw RemoteError("E-REMOTE-READ", fmt::format("{}: {}", name, excerpt(failure)), true);
  }
}

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

namespace {
bool is_encoded(const HttpHead& head) {
  const std::string* const encoding = head.find("content-encoding");
  return encoding != nullptr && !encoding->empty() && *encoding != "identity";
}
}  // namespace

bool is_page(const HttpHead& head) {
  const std::string* const type = head.find("content-type");
  return type != nullptr && type->starts_with("text/html");
}

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

}  // namespace vindex::input
