// Owns parsing addresses, and refusing them where no store is built in.
#include "store_schemes.hpp"

#include "core/text_parts.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

namespace vindex::input {

namespace {

struct RemoteForm {
  std::string_view name;
  std::string_view form;
  std::size_t max_parts;  ///< 0: no bound
};

constexpr std::array<RemoteForm, 3> kForms = {{{"hf", "hf://ORGANISATION/REPOSITORY[@REVISION]", 2},
                                               {"https", "https://HOST/PATH", 0},
                                               {"s3", "s3://BUCKET/KEY", 0}}};

/// What is wrong with the parts behind "://"; empty where nothing is.
std::string fault_of(std::string_view rest, const RemoteForm& scheme) {
  if (std::any_of(rest.begin(), rest.end(),
                  [](char c) { return static_cast<unsigned char>(c) <= 0x20 || c == 0x7F; })) {
    return "a space or control character";
  }
  std::vector<std::string_view> parts = split(rest, '/');
  if (scheme.max_parts > 0 && parts.size() == scheme.max_parts) {
    // A revision is one more part, of which there may be none.
    const std::vector<std::string_view> last = split(parts.back(), '@');
    if (last.size() > 2) {
      return "two revisions";
    }
    parts.pop_back();
    parts.insert(parts.end(), last.begin(), last.end());
  } else if (scheme.max_parts > 0 && parts.size() > scheme.max_parts) {
    return "more parts than an address has";
  }
  if (parts.size() < 2 ||
      std::any_of(parts.begin(), parts.end(), [](std::string_view part) { return part.empty(); })) {
    return "an empty part";
  }
  if (std::any_of(parts.begin(), parts.end(),
                  [](std::string_view part) { return part == ".." || part == "."; })) {
    return "a part that is . or ..";
  }
  return std::string();
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

std::shared_ptr<ModelStore> refuse_remote_address(const std::string& address) {
  const std::string_view name = scheme_of(address).value_or(std::string_view());
  const auto* form = std::find_if(kForms.begin(), kForms.end(), [&](const RemoteForm& candidate) {
    return candidate.name == name;
  });
  if (form == kForms.end()) {
    throw UsageError("E-REMOTE-ADDRESS",
                     fmt::format("{}: no model address begins with {}://; give a folder or file",
                                 excerpt(address), excerpt(name)));
  }
  const std::string fault = fault_of(std::string_view(address).substr(name.size() + 3), *form);
  if (!fault.empty()) {
    throw UsageError("E-REMOTE-ADDRESS",
                     fmt::format("{}: {}; the form is {}", excerpt(address), fault, form->form));
  }
  throw UsageError("E-REMOTE", fmt::format("{}: remote models are not read yet; fetch it and give "
                                           "its folder or file",
                                           excerpt(address)));
}

}  // namespace vindex::input
