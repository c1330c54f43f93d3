#include "adapter_names.hpp"

#include <array>
#include <string_view>

namespace vindex::model {

namespace {

constexpr std::string_view kPrefix = "base_model.model.";
constexpr std::string_view kWeight = ".weight";

struct Marker {
  std::string_view text;
  AdapterSide side;
  bool embedding;
};
constexpr std::array<Marker, 4> kMarkers = {{{".lora_A", AdapterSide::kA, false},
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
  for (const Marker& marker : kMarkers) {
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

std::optional<FactorName> factor_name(const std::string& name, shard::ContainerFormat format) {
  if (format == shard::ContainerFormat::kGguf) {
    return plain_factor(name, false);
  }
  auto found = plain_factor(name, true);
  return found ? found : peft_factor(name);
}

}  // namespace vindex::model
