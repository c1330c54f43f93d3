// Owns the architectures that scale, and the keys that say by how much.
#include "model_config.hpp"

#include <vindex/model/embedding_scale.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace vindex::model {

namespace {

/// Architectures (how their names begin) that multiply by the root of the hidden size unasked.
constexpr std::array<std::string_view, 4> kRootOfHidden = {"gemma", "recurrent_gemma", "t5gemma",
                                                           "vaultgemma"};
/// What llama.cpp takes for GGUF files whose keys do not say it.
struct Default {
  std::string_view architecture;
  double factor;
};
constexpr std::array<Default, 3> kGgufDefaults = {
    {{"minicpm", 12.0}, {"minicpm3", 12.0}, {"grok", 78.38367176906169}}};

}  // namespace

EmbeddingScale embedding_scale(const shard::ModelFiles& files, std::int64_t hidden) {
  std::vector<Warning> unused;
  const Claims claims(files, unused);
  const bool is_gguf = files.format == shard::ContainerFormat::kGguf;
  const std::string& architecture =
      claims.inner_architecture().empty() ? claims.architecture() : claims.inner_architecture();
  if (const auto said = claims.real(
          {"embedding_multiplier", "scale_emb", "embedding_multiplier_scale", "embedding_scale"},
          {"embedding_scale"});
      said && said->second != 0.0) {
    return {said->second, fmt::format("{}: {}", architecture, said->first)};
  }
  const bool takes_root =
      std::any_of(kRootOfHidden.begin(), kRootOfHidden.end(),
                  [&](std::string_view name) { return architecture.starts_with(name); });
  const bool asks_for_root = claims.flag("scale_embedding");
  const bool afmoe = architecture == "afmoe" && (is_gguf || claims.flag("mup_enabled"));
  if (takes_root || asks_for_root || afmoe) {
    return {std::sqrt(static_cast<double>(hidden)),
            fmt::format("{}: sqrt(hidden size)", architecture)};
  }
  const auto* found =
      std::find_if(kGgufDefaults.begin(), kGgufDefaults.end(),
                   [&](const Default& one) { return one.architecture == architecture; });
  if (is_gguf && found != kGgufDefaults.end()) {
    return {found->factor,
            fmt::format("{}: the factor of llama.cpp, the keys say none", architecture)};
  }
  return {};
}

}  // namespace vindex::model
