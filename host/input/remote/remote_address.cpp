// Owns taking hf://, s3:// and https:// addresses apart, the encoding of paths, and the refusal of
// what would name another server.
#include "remote_address.hpp"

#include "address_names.hpp"

#include "core/text/secrets.hpp"
#include "core/text/text_parts.hpp"
#include "core/text/utf8.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

namespace vindex::input {

namespace {

struct RemoteForm {
  std::string_view name;
  std::string_view form;
};

constexpr std::array<RemoteForm, 4> kForms = {
    {{"hf", "hf://ORGANISATION/REPOSITORY[@REVISION][/PATH]"},
     {"https", "https://HOST/PATH"},
     {"http", "http://HOST/PATH"},
     {"s3", "s3://BUCKET/KEY"}}};

/// What is wrong with the parts behind "://"; empty where nothing is.
std::string fault_of(std::string_view rest, const RemoteForm& scheme) {
  if (std::any_of(rest.begin(), rest.end(),
                  [](char c) { return static_cast<unsigned char>(c) <= 0x20 || c == 0x7F; })) {
    return "a space or control character";
  }
  const bool is_url = scheme.name.starts_with("http");
  if (is_url && (rest.find_first_of("\"<>\\`") != std::string_view::npos || !is_utf8(rest))) {
    return "a character that is not written as %XX";
  }
  if (is_url && rest.find('#') != std::string_view::npos) {
    return "a # that is not written as %23";
  }
  if (is_url) {
    rest = rest.substr(0, rest.find('?'));
  }
  std::vector<std::string_view> parts = split(rest, '/');
  if (is_url && parts.front().find('@') != std::string_view::npos) {
    return "a name or password for the server";
  }
  // A name of a server, bucket or repository with such a character would choose another server.
  std::string name_fault = is_url                ? fault_of_host(parts.front())
                           : scheme.name == "s3" ? fault_of_bucket(parts.front())
                                                 : "";
  if (!is_url && parts.size() > 2 && parts.back().empty()) {
    parts.pop_back();  // PATH/ names a folder
  }
  if (scheme.name == "hf" && parts.size() >= 2) {
    // A revision is one more part, of which there may be none.
    const std::vector<std::string_view> last = split(parts[1], '@');
    if (last.size() > 2) {
      return "two revisions";
    }
    if (last.size() == 2 && percent_decoded(last.back()).find("..") != std::string::npos) {
      return "a revision with ..";
    }
    parts[1] = last.front();
    parts.insert(parts.end(), last.begin() + 1, last.end());
    name_fault = fault_of_repository(parts[0]);
    name_fault = name_fault.empty() ? fault_of_repository(parts[1]) : name_fault;
  }
  if (parts.size() < 2 ||
      std::any_of(parts.begin(), parts.end(), [](std::string_view part) { return part.empty(); })) {
    return "an empty part";
  }
  if (std::any_of(parts.begin(), parts.end(), [&](std::string_view part) {
        // The Hub gets every letter as it stands; of a revision %2F is a slash.
        const std::string plain = is_url ? percent_decoded(part) : std::string(part);
        return plain == ".." || plain == "." ||
               plain.find_first_of(std::string_view("/\0", 2)) != std::string::npos;
      })) {
    return "a part that is . or .. or holds a hidden /";
  }
  return name_fault;
}

}  // namespace

std::optional<std::string_view> scheme_of(std::string_view address) {
  const std::size_t end = address.find("://");
  const auto may_name = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '+' ||
           c == '-' || c == '.';
  };
  if (end == std::string_view::npos || end == 0 ||
      !std::all_of(address.begin(), address.begin() + static_cast<std::ptrdiff_t>(end), may_name)) {
    return std::nullopt;
  }
  return address.substr(0, end);
}

namespace {
/// Of the parts of a path: the last one is a file where it has a dot.
std::pair<std::string, std::string> folder_and_file(std::span<const std::string_view> parts) {
  std::string folder, file;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i + 1 == parts.size() && parts[i].find('.') != std::string_view::npos) {
      file = parts[i];
    } else if (!parts[i].empty()) {
      folder += std::string(parts[i]) + "/";
    }
  }
  return {folder, file};
}
}  // namespace

HubAddress hub_address(const std::string& address) {
  check_remote_address(address);
  std::vector<std::string_view> parts =
      split(std::string_view(address).substr(address.find("://") + 3), '/');
  HubAddress out;
  const std::size_t at = parts[1].find('@');
  out.repository = std::string(parts[0]) + "/" + std::string(parts[1].substr(0, at));
  std::size_t next = 2;
  if (at != std::string_view::npos) {
    out.revision = percent_decoded(parts[1].substr(at + 1));
    if (out.revision == "refs" && parts.size() > 3 && (parts[2] == "pr" || parts[2] == "convert")) {
      out.revision += "/" + std::string(parts[2]) + "/" + std::string(parts[3]);
      next = 4;
    }
  }
  std::tie(out.folder, out.file) = folder_and_file(std::span(parts).subspan(next));
  return out;
}

S3Address s3_address(const std::string& address) {
  check_remote_address(address);
  const std::vector<std::string_view> parts =
      split(std::string_view(address).substr(address.find("://") + 3), '/');
  S3Address out;
  out.bucket = std::string(parts.front());
  std::tie(out.folder, out.file) = folder_and_file(std::span(parts).subspan(1));
  return out;
}

std::string percent_encoded(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '.' || c == '_' || c == '~';
    out += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

std::string percent_encoded_path(std::string_view path) {
  std::string out;
  for (const std::string_view part : split(path, '/')) {
    out += (part.data() == path.data() ? "" : "/") + percent_encoded(part);
  }
  return out;
}

std::string percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned char value = static_cast<unsigned char>(text[i]);
    if (text[i] == '%' && text.size() - i > 2) {
      const char* const digits = text.data() + i + 1;
      unsigned char decoded = 0;
      if (std::from_chars(digits, digits + 2, decoded, 16).ptr == digits + 2) {
        value = decoded;
        i += 2;
      }
    }
    out += static_cast<char>(value);
  }
  return out;
}

void throw_unknown_scheme(const std::string& address) {
  throw UsageError("E-REMOTE-ADDRESS",
                   fmt::format("{}: no model address begins with {}://; give a folder or file",
                               excerpt(address_without_secrets(address)),
                               excerpt(scheme_of(address).value_or(""))));
}

void check_remote_address(const std::string& address) {
  const std::string_view name = scheme_of(address).value_or(std::string_view());
  const auto* form = std::find_if(kForms.begin(), kForms.end(), [&](const RemoteForm& candidate) {
    return candidate.name == name;
  });
  if (form == kForms.end()) {
    throw_unknown_scheme(address);
  }
  const std::string fault = fault_of(std::string_view(address).substr(name.size() + 3), *form);
  if (!fault.empty()) {
    throw UsageError("E-REMOTE-ADDRESS",
                     fmt::format("{}: {}; the form is {}",
                                 excerpt(address_without_secrets(address)), fault, form->form));
  }
}

}  // namespace vindex::input
