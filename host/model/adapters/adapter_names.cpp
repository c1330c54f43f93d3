// Owns the patterns of each tool, and the weight that a factor belongs to.
#include "adapter_names.hpp"

#include <array>
#include <string_view>

namespace vindex::model {

namespace {

constexpr std::string_view kPrefix = "base_model.model.";
constexpr std::string_view kWeight = ".weight";
constexpr std::string_view kBaseLayer = ".base_layer";

struct AdapterMarker {
  std::string_view text;
  AdapterSide side;
  bool embedding;
};
constexpr std::array<AdapterMarker, 4> kAdapterMarkers = {
    {{".lora_A", AdapterSide::kA, false},
     {".lora_B", AdapterSide::kB, false},
     {".lora_embedding_A", AdapterSide::kA, true},
     {".lora_embedding_B", AdapterSide::kB, true}}};

/// NAME.lora_a and NAME.lora_b: llama.cpp's behind a tensor's name, MLX's behind a module's.
std::optional<FactorName> plain_factor(const std::string& name, bool mlx) {
  const bool a = name.ends_with(".lora_a");
  if (!a && !name.ends_with(".lora_b")) {
    return std::nullopt;
  }
  FactorName out;
  out.module = name.substr(0, name.size() - 7);
  out.base = out.module + std::string(mlx ? kWeight : std::string_view());
  out.side = a ? AdapterSide::kA : AdapterSide::kB;
  out.mlx = mlx;
  return out;
}

std::optional<FactorName> peft_factor(const std::string& name) {
  if (name.ends_with(".bias")) {
    return std::nullopt;  // lora_bias: no factor, of whichever adapter
  }
  for (const AdapterMarker& marker : kAdapterMarkers) {
    const std::size_t at = name.rfind(marker.text);
    if (at == std::string::npos) {
      continue;
    }
    std::string_view rest = std::string_view(name).substr(at + marker.text.size());
    if (rest.ends_with(kWeight)) {
      rest.remove_suffix(kWeight.size());
    }
    if (!rest.empty() && (rest.front() != '.' || rest.size() == 1)) {
      continue;  // another word that begins alike
    }
    FactorName out;
    out.module = name.substr(0, at);
    if (out.module.starts_with(kPrefix)) {
      out.module.erase(0, kPrefix.size());
    }
    while (out.module.ends_with(kBaseLayer)) {
      out.module.resize(out.module.size() - kBaseLayer.size());
      ++out.depth;
    }
    if (!rest.empty() && rest != ".default") {
      out.adapter = rest.substr(1);
    }
    out.base = out.module + std::string(kWeight);
    out.side = marker.side;
    out.embedding = marker.embedding;
    return out;
  }
  return std::nullopt;
}

}  // namespace

std::optional<FactorName> factor_name(const std::string& name, input::ContainerFormat format) {
  if (format == input::ContainerFormat::kGguf) {
    return plain_factor(name, false);
  }
  auto found = plain_factor(name, true);
  return found ? found : peft_factor(name);
}

std::string base_tensor_name(const std::string& name) {
  std::string out = name.starts_with(kPrefix) ? name.substr(kPrefix.size()) : name;
  const std::size_t leaf = out.rfind('.');
  if (leaf != std::string::npos && std::string_view(out).substr(0, leaf).ends_with(kBaseLayer)) {
    out.erase(leaf - kBaseLayer.size(), kBaseLayer.size());
  }
  return out;
}

std::string adapted_weight(const std::string& name, input::ContainerFormat format) {
  // Cheap for the 200,000 names that are none.
  if (name.find(".lora_") != std::string::npos) {
    const auto factor = factor_name(name, format);
    return factor ? factor->base : std::string();
  }
  const bool copy = name.find(kBaseLayer) != std::string::npos;
  return copy && format != input::ContainerFormat::kGguf ? base_tensor_name(name) : std::string();
}

}  // namespace vindex::model
