// Owns the checks of such names, character by character, and the text that says what is wrong.
#include "address_names.hpp"

#include "core/text/text_parts.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace vindex::input {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_small(char c) { return c >= 'a' && c <= 'z'; }
bool is_letter(char c) { return is_small(c) || (c >= 'A' && c <= 'Z'); }

/// Letters, digits and what `more` lists.
bool has_only(std::string_view text, std::string_view more) {
  return std::all_of(text.begin(), text.end(), [&](char c) {
    return is_letter(c) || is_digit(c) || more.find(c) != std::string_view::npos;
  });
}

bool is_ipv4(std::string_view text) {
  const std::vector<std::string_view> parts = split(text, '.');
  return parts.size() == 4 && std::all_of(parts.begin(), parts.end(), [](std::string_view part) {
           return !part.empty() && std::all_of(part.begin(), part.end(), is_digit);
         });
}

bool is_port(std::string_view text) {
  const auto number = whole_number<std::uint32_t>(text);
  return number && *number >= 1 && *number <= 65535;
}

}  // namespace

bool has_good_port(std::string_view proxy) {
  if (const std::size_t scheme = proxy.find("://"); scheme != std::string_view::npos) {
    proxy.remove_prefix(scheme + 3);
  }
  proxy = proxy.substr(0, proxy.find('/'));
  proxy.remove_prefix(proxy.rfind('@') == std::string_view::npos ? 0 : proxy.rfind('@') + 1);
  const std::size_t bracket = proxy.rfind(']');
  const std::size_t colon = proxy.rfind(':');
  const bool names_port =
      colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket);
  return !names_port || is_port(proxy.substr(colon + 1));
}

std::string fault_of_host(std::string_view host) {
  std::string_view name = host;
  std::optional<std::string_view> port;
  const std::size_t bracket = host.starts_with('[') ? host.find(']') : 0;
  if (bracket == std::string_view::npos) {
    return "a [ without its ]";
  }
  if (const std::size_t colon = host.find(':', bracket); colon != std::string_view::npos) {
    name = host.substr(0, colon);
    port = host.substr(colon + 1);
  }
  if (name.starts_with('[')) {
    const std::string_view inner = name.substr(1, bracket - 1);
    const bool is_address = bracket + 1 == name.size() &&
                            inner.find(':') != std::string_view::npos &&
                            std::all_of(inner.begin(), inner.end(), [](char c) {
                              return is_digit(c) || (c >= 'a' && c <= 'f') ||
                                     (c >= 'A' && c <= 'F') || c == ':' || c == '.';
                            });
    if (!is_address) {
      return "brackets that hold no IPv6 address";
    }
  } else if (name.empty() || !has_only(name, "-._")) {
    return "a host that is no name: letters of ASCII, digits, - and . are";
  }
  return port && !is_port(*port) ? "a port that is no number from 1 to 65535" : "";
}

std::string fault_of_bucket(std::string_view bucket) {
  const auto ends_well = [](char c) { return is_small(c) || is_digit(c); };
  const bool is_name =
      bucket.size() >= 3 && bucket.size() <= 63 && has_only(bucket, "-.") &&
      std::none_of(bucket.begin(), bucket.end(), [](char c) { return c >= 'A' && c <= 'Z'; }) &&
      ends_well(bucket.front()) && ends_well(bucket.back()) &&
      bucket.find("..") == std::string_view::npos && !is_ipv4(bucket);
  return is_name ? "" : "a bucket that is no name: 3 to 63 small letters, digits, - and . are";
}

std::string fault_of_repository(std::string_view part) {
  const auto ends_well = [](char c) { return c != '-' && c != '.'; };
  const bool is_name = !part.empty() && part.size() <= 96 && has_only(part, "-._") &&
                       ends_well(part.front()) && ends_well(part.back()) &&
                       part.find("--") == std::string_view::npos &&
                       part.find("..") == std::string_view::npos;
  return is_name ? "" : "a part that is no name: letters of ASCII, digits, -, _ and . are";
}

}  // namespace vindex::input
