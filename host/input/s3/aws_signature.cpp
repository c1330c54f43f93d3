// Owns the canonical request, the string to sign and the derived key of a signature, step by step
// as the specification has them.
#include "aws_signature.hpp"

#include "core/digest.hpp"
#include "core/text/text_parts.hpp"
#include "input/http/http_message.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

namespace vindex::input {

namespace {

constexpr const char* kAlgorithm = "AWS4-HMAC-SHA256";

std::string_view text_of(const Sha256Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

/// HMAC-SHA256 (RFC 2104).
Sha256Digest keyed_digest(std::string_view key, std::string_view text) {
  constexpr std::size_t kBlock = 64;
  const Sha256Digest short_key = key.size() > kBlock ? sha256(key) : Sha256Digest{};
  if (key.size() > kBlock) {
    key = text_of(short_key);
  }
  std::string inner(kBlock, '\x36'), outer(kBlock, '\x5c');
  for (std::size_t i = 0; i < key.size(); ++i) {
    inner[i] = static_cast<char>(inner[i] ^ key[i]);
    outer[i] = static_cast<char>(outer[i] ^ key[i]);
  }
  Sha256 first, second;
  first.update(inner);
  first.update(text);
  second.update(outer);
  second.update(text_of(first.finish()));
  return second.finish();
}

/// Where the parts of a URL are.
struct UrlParts {
  std::string host, path, query;
};

UrlParts parts_of_url(const std::string& url) {
  const std::size_t host = url.find("://") + 3;
  const std::size_t path = std::min(url.find_first_of("/?", host), url.size());
  const std::size_t query = std::min(url.find('?', path), url.size());
  UrlParts parts{url.substr(host, path - host), url.substr(path, query - path),
                 url.substr(std::min(query + 1, url.size()))};
  if (parts.path.empty()) {
    parts.path = "/";
  }
  return parts;
}

/// Parameters in the order of their names and values, each with its "=".
std::string canonical_query(const std::string& query) {
  std::vector<std::pair<std::string_view, std::string_view>> parameters;
  for (const std::string_view part : split(query, '&')) {
    if (!part.empty()) {
      const std::size_t equals = std::min(part.find('='), part.size());
      parameters.emplace_back(part.substr(0, equals),
                              part.substr(std::min(equals + 1, part.size())));
    }
  }
  std::sort(parameters.begin(), parameters.end());
  std::string out;
  for (const auto& [name, value] : parameters) {
    out += fmt::format("{}{}={}", out.empty() ? "" : "&", name, value);
  }
  return out;
}

}  // namespace

std::vector<std::string> aws_signature(const AwsCredentials& credentials, const std::string& region,
                                       const std::string& url,
                                       const std::vector<std::string>& fields, std::time_t now) {
  const UrlParts parts = parts_of_url(url);
  const std::string moment = fmt::format("{:%Y%m%dT%H%M%SZ}", fmt::gmtime(now));
  const std::string day = moment.substr(0, 8);
  const std::string no_body = hex(sha256(""));
  std::vector<std::string> added = {"x-amz-content-sha256: " + no_body, "x-amz-date: " + moment};
  if (!credentials.session_token.empty()) {
    added.push_back("x-amz-security-token: " + credentials.session_token);
  }
  std::map<std::string, std::string> to_sign = {{"host", parts.host}};
  const auto sign = [&](const std::vector<std::string>& list) {
    for (const std::string& field : list) {
      const std::size_t colon = field.find(": ");
      to_sign[small_letters(field.substr(0, colon))] = field.substr(colon + 2);
    }
  };
  sign(fields);
  sign(added);
  std::string lines, names;
  for (const auto& [name, value] : to_sign) {
    lines += name + ":" + value + "\n";
    names += (names.empty() ? "" : ";") + name;
  }
  const std::string request = fmt::format("GET\n{}\n{}\n{}\n{}\n{}", parts.path,
                                          canonical_query(parts.query), lines, names, no_body);
  const std::string scope = fmt::format("{}/{}/s3/aws4_request", day, region);
  const std::string text =
      fmt::format("{}\n{}\n{}\n{}", kAlgorithm, moment, scope, hex(sha256(request)));
  Sha256Digest key = keyed_digest("AWS4" + credentials.secret, day);
  for (const std::string_view step : {std::string_view(region), std::string_view("s3"),
                                      std::string_view("aws4_request"), std::string_view(text)}) {
    key = keyed_digest(text_of(key), step);
  }
  added.push_back(fmt::format("Authorization: {} Credential={}/{}, SignedHeaders={}, Signature={}",
                              kAlgorithm, credentials.key_id, scope, names, hex(key)));
  return added;
}

}  // namespace vindex::input
