// Owns reading HF_HOME, HF_TOKEN, HF_ENDPOINT and the file of the token.
#include "hub_environment.hpp"

#include "input/http/http_message.hpp"
#include "input/remote/remote_environment.hpp"
#include <vindex/error.hpp>

#include <algorithm>

namespace vindex::input {

namespace {

constexpr std::size_t kLongestToken = 4096;

std::string hub_home() {
  if (const std::string given = variable("HF_HOME"); !given.empty()) {
    return without_tilde(given);
  }
  if (const std::string caches = variable("XDG_CACHE_HOME"); !caches.empty()) {
    return without_tilde(caches) + "/huggingface";
  }
  const std::string home = variable("HOME");
  return home.empty() ? std::string() : home + "/.cache/huggingface";
}

std::string token_of(const std::string& home) {
  if (is_on("HF_HUB_DISABLE_IMPLICIT_TOKEN")) {
    return std::string();
  }
  std::string token = trimmed(variable("HF_TOKEN"));
  if (token.empty()) {
    const std::string given = without_tilde(variable("HF_TOKEN_PATH"));
    token = trimmed(
        text_of_file(given.empty() ? home + "/token" : given, kLongestToken, "E-HUB-TOKEN"));
  }
  if (std::any_of(token.begin(), token.end(), [](char c) { return c <= 0x20 || c >= 0x7F; })) {
    throw ConfigurationError("E-HUB-TOKEN",
                             "the token for the Hub (HF_TOKEN or its file) holds spaces, control "
                             "characters or letters beyond ASCII");
  }
  return token;
}

}  // namespace

HubEnvironment hub_environment() {
  HubEnvironment hub;
  const std::string home = hub_home();
  hub.endpoint = variable("HF_ENDPOINT");
  if (hub.endpoint.empty()) {
    hub.endpoint = "https://huggingface.co";
  }
  while (hub.endpoint.ends_with('/')) {
    hub.endpoint.pop_back();
  }
  if (origin_of(hub.endpoint).empty() || hub.endpoint.find_first_of("?#") != std::string::npos) {
    // It is not repeated: what is wrong may be a password.
    throw ConfigurationError("E-HUB-ENDPOINT",
                             "HF_ENDPOINT is no https:// or http:// address of a server, with no "
                             "user and no password and a port from 1 to 65535");
  }
  hub.token = token_of(home);
  hub.cache = without_tilde(variable("HF_HUB_CACHE"));
  if (hub.cache.empty() && !home.empty()) {
    hub.cache = home + "/hub";
  }
  hub.offline = is_on("HF_HUB_OFFLINE");
  return hub;
}

}  // namespace vindex::input
