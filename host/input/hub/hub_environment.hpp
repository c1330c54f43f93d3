// Owns what the environment says of the Hugging Face Hub, with the meanings that huggingface_hub
// gives these variables.
#pragma once

#include <string>

namespace vindex::input {

struct HubEnvironment {
  std::string endpoint;  ///< HF_ENDPOINT, else https://huggingface.co; no slash at its end
  /// HF_TOKEN, else the file HF_TOKEN_PATH, else HF_HOME/token; empty where there is none, or
  /// HF_HUB_DISABLE_IMPLICIT_TOKEN is set.
  std::string token;
  std::string cache;     ///< HF_HUB_CACHE, else HF_HOME/hub; empty where there is no home
  bool offline = false;  ///< HF_HUB_OFFLINE is 1, ON, YES or TRUE
};

/// HF_HOME is ~/.cache/huggingface, or below XDG_CACHE_HOME, where it is not set. Errors:
/// ConfigurationError E-HUB-TOKEN (78) for a token with spaces or control characters,
/// E-HUB-ENDPOINT for one that is no https or http address. Neither shows the token.
HubEnvironment hub_environment();

}  // namespace vindex::input
