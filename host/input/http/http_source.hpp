// Owns one file behind an HTTP address as a byte source: its size and version from the first
// answer, ranges side by side, and every answer checked before its bytes count.
#pragma once

#include "http_answer.hpp"
#include "http_client.hpp"

#include "core/files/byte_source.hpp"
#include "input/model_store.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace vindex::input {

/// What the first request of a file asks for: nearly every header is shorter.
inline constexpr std::uint64_t kFirstHttpBytes = std::uint64_t{128} << 10U;

/// Asks for kFirstHttpBytes, which are kept until the header has been read. A server that sends
/// all of a file of at most 32 MiB instead is taken at its word. Errors: MissingInputError
/// E-FILE-MISSING (404, 410), RemoteError E-REMOTE-DENIED (401, 403; final), E-REMOTE-BUSY (408,
/// 425, 429, 5xx; retryable), E-REMOTE-ANSWER (an answer that is none to the question; final),
/// E-REMOTE-READ (the connection; retryable), those of HttpClient. Reading: the same, SystemError
/// E-INPUT-CHANGED (74) where the file is another than at opening, FormatError E-TRUNCATED.
std::unique_ptr<ByteSource> open_http_source(std::shared_ptr<HttpClient> client, HttpFile file);

/// Whether opening it may succeed; 403 counts as absent, since stores that may not be listed
/// answer so for what is not there. Errors: as above.
MemberState http_state(HttpClient& client, const HttpFile& file);

/// The whole body of `file`, at most `most` bytes. Errors: as above.
std::string http_text(HttpClient& client, const HttpFile& file, std::size_t most);

}  // namespace vindex::input
