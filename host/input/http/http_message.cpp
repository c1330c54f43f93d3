// Owns the parsing of single fields of a head, and the joining of a relative address to its base.
#include "http_message.hpp"

#include "core/text/secrets.hpp"
#include "core/text/text_parts.hpp"
#include "input/remote/address_names.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <charconv>
#include <ctime>
#include <string_view>

namespace vindex::input {

namespace {

std::optional<double> number_of(std::string_view text) {
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && stop == text.data() + text.size() && value >= 0
             ? std::optional(value)
             : std::nullopt;
}

/// The number behind ";r=" or ";t=" of `RateLimit: "resolvers";r=LEFT;t=SECONDS`.
std::optional<double> rate_parameter(const std::string& field, const char* name) {
  for (const std::string_view part : split(field, ';')) {
    const std::size_t begin = std::min(part.find_first_not_of(" \t"), part.size());
    if (part.substr(begin).starts_with(name)) {
      const std::string_view value = part.substr(begin + 2);
      return number_of(value.substr(0, value.find_first_not_of("0123456789")));
    }
  }
  return std::nullopt;
}

}  // namespace

std::string small_letters(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return text;
}

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

std::string origin_of(const std::string& url) {
  const std::size_t end = url.find("://");
  const std::string scheme = small_letters(url.substr(0, end));
  if (end == std::string::npos || (scheme != "http" && scheme != "https")) {
    return std::string();
  }
  std::string host = url.substr(end + 3);
  host = small_letters(host.substr(0, host.find_first_of("/?#")));
  if (!fault_of_host(host).empty()) {
    return std::string();
  }
  const std::size_t colon = host.rfind(':');
  const bool has_port = colon != std::string::npos && host.find(']', colon) == std::string::npos;
  return scheme + "://" + host + (has_port ? "" : scheme == "https" ? ":443" : ":80");
}

std::optional<double> seconds_to_wait(const HttpHead& head) {
  const bool is_refusal = head.status == 429 || head.status == 503;
  if (const std::string* after = head.find("retry-after"); after != nullptr && is_refusal) {
    if (const auto seconds = number_of(*after)) {
      return seconds;
    }
    std::tm date = {};
    if (::strptime(after->c_str(), "%a, %d %b %Y %H:%M:%S GMT", &date) != nullptr) {
      return std::max(0.0, std::difftime(::timegm(&date), std::time(nullptr)));
    }
  }
  const std::string* const rate = head.find("ratelimit");
  if (rate == nullptr || (!is_refusal && rate_parameter(*rate, "r=") != 0.0)) {
    return std::nullopt;
  }
  return rate_parameter(*rate, "t=");
}

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

std::string shown_url(const std::string& url) { return printable(address_without_secrets(url)); }

}  // namespace vindex::input
