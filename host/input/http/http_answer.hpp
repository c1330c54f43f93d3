// Owns judging answers of a server that was asked for a file or a part of one.
#pragma once

#include "http_message.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace vindex::input {

struct HttpFile {
  std::string url;
  std::string name;       ///< in messages, printable, without what is secret in the URL
  std::string revision;   ///< where the URL names one version for ever: identity() asks nobody
  std::string hint = {};  ///< what may help where the server denies it: "; ..."
};

[[noreturn]] void throw_answer(const std::string& name, const std::string& why);
[[noreturn]] void throw_changed(const std::string& name);
[[noreturn]] void throw_ended_early(const std::string& name);
/// Throws what a status that is no success means: MissingInputError E-FILE-MISSING (404, 410),
/// RemoteError E-REMOTE-DENIED (401, 403; final), E-REMOTE-BUSY (408, 425, 429, 5xx; retryable),
/// E-S3-REGION (S3 names the region that the bucket is in; final), E-REMOTE-ANSWER.
[[noreturn]] void throw_status(const HttpFile& file, const HttpHead& head);
/// Throws RemoteError E-REMOTE-READ (retryable) where the connection failed: HttpExchange::failure.
void check_failure(const std::string& name, const std::string& failure);

/// What "bytes FIRST-LAST/TOTAL" says.
struct ContentRange {
  std::uint64_t first = 0, last = 0, total = 0;
};
std::optional<ContentRange> content_range(const HttpHead& head);

bool is_page(const HttpHead& head);
/// What is wrong with a success as the bytes of a file; empty where nothing is.
std::string fault_of_content(const HttpHead& head);
/// Its ETag, else Last-Modified, else empty.
std::string version_of_head(const HttpHead& head);
/// "Range: bytes=FIRST-LAST".
std::string range_field(std::uint64_t first, std::uint64_t bytes);

}  // namespace vindex::input
