// Owns finding addresses in a text and the parts of them that are replaced.
#include "secrets.hpp"

#include <algorithm>
#include <cstddef>

namespace vindex {

namespace {

constexpr std::string_view kSeparator = "://";

bool may_name_scheme(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '+' ||
         c == '-' || c == '.';
}

bool ends_address(char c) {
  return static_cast<unsigned char>(c) <= 0x20 || c == 0x7F || c == '"' || c == '<' || c == '>' ||
         c == '`' || c == '\\';
}

/// Punctuation at the end of an address that a sentence has put there.
bool is_of_sentence(char c) {
  return std::string_view(".,;:!)]'").find(c) != std::string_view::npos;
}

bool is_web(std::string_view scheme) {
  constexpr std::string_view kHttp = "http";
  const auto same = [](char a, char b) { return (a | 0x20) == b; };
  return scheme.size() >= kHttp.size() && scheme.size() <= kHttp.size() + 1 &&
         std::equal(kHttp.begin(), kHttp.end(), scheme.begin(),
                    [&](char b, char a) { return same(a, b); });
}

/// What stands behind "://" as it may be shown.
std::string shown_rest(std::string_view scheme, std::string_view rest) {
  std::string_view host = rest.substr(0, rest.find_first_of("/?#"));
  if (const std::size_t at = host.rfind('@'); at != std::string_view::npos) {
    rest.remove_prefix(at + 1);
    host.remove_prefix(at + 1);
  } else if (const std::size_t colon = host.find(':');
             colon != std::string_view::npos && !host.starts_with('[')) {
    const std::string_view port = host.substr(colon + 1);
    const bool is_port =
        std::all_of(port.begin(), port.end(), [](char c) { return c >= '0' && c <= '9'; });
    // A password with a slash, a question mark or a number sign ends behind them.
    const std::size_t late = rest.rfind('@');
    if (!is_port && late != std::string_view::npos) {
      rest.remove_prefix(late + 1);
    } else if (!is_port) {
      return "...";
    }
  }
  if (is_web(scheme)) {
    return std::string(rest.substr(0, rest.find_first_of("?#")));
  }
  const std::size_t query = rest.find('?');
  const bool assigns =
      query != std::string_view::npos && rest.find('=', query) != std::string_view::npos;
  return std::string(assigns ? rest.substr(0, query) : rest);
}

/// `whole`: the first address takes all that follows it.
std::string shortened(std::string_view text, bool whole) {
  std::string out;
  while (true) {
    const std::size_t separator = text.find(kSeparator);
    if (separator == std::string_view::npos) {
      return out += text;
    }
    std::size_t scheme = separator;
    while (scheme > 0 && may_name_scheme(text[scheme - 1])) {
      --scheme;
    }
    const std::size_t begin = separator + kSeparator.size();
    out += text.substr(0, begin);
    const std::string_view name = text.substr(scheme, separator - scheme);
    text.remove_prefix(begin);
    const auto stop = whole ? text.end() : std::find_if(text.begin(), text.end(), ends_address);
    auto end = static_cast<std::size_t>(stop - text.begin());
    while (!whole && end > 0 && is_of_sentence(text[end - 1])) {
      --end;
    }
    out += name.empty() ? std::string(text.substr(0, end)) : shown_rest(name, text.substr(0, end));
    text.remove_prefix(end);
  }
}

}  // namespace

std::string without_secrets(std::string_view text) { return shortened(text, false); }

std::string address_without_secrets(std::string_view address) { return shortened(address, true); }

}  // namespace vindex
