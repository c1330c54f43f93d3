// Owns the markers of each scheme, and modules named by the configuration.
#include "schemes.hpp"
#include "weight.hpp"

#include "core/text/text_parts.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <unordered_map>

namespace vindex::model {

namespace {

using decode::ElementType;
using input::StoredTensor;

// Methods whose weights are read where their tensors' names say how.
constexpr std::string_view kReadMethods =
    "auto-round awq bitnet bitsandbytes compressed-tensors fp8 gptq fbgemm_fp8 hqq "
    "intel/auto-round metal mlx modelopt mxfp4 mxfp8 quark";

// Methods of which nothing but plain floats may be believed, also where a name is one of those
// above: SINQ's W_q has a second scale, ParoQuant's qweight is rotated. Source: transformers
// quantizers/auto.py, GPTQModel quantization/config.py, vLLM model_executor/layers/quantization.
constexpr std::string_view kForeignMethods =
    "aqlm bitblas eetq exl2 exl3 fouroversix fp_quant gguf gptq_marlin_24 higgs marlin nvfp4 "
    "paroquant qqq quanto quip sinq spqr squeezellm torchao vptq hqq_marlin";

/// A tensor `base + suffix` is part of the weight `base + ".weight"` of `scheme`, whatever the
/// configuration says.
struct SchemeMarker {
  std::string_view suffix;
  std::string_view scheme;
};
constexpr SchemeMarker kSchemeMarkers[] = {
    {".trellis", "exl3"},
    {".q_weight", "exl2"},
    {".codebooks", "aqlm"},
    {".Qidxs", "quip"},
    {"._weight_qdata", "torchao"},
    {".weight._data", "quanto"},
    {".dense_weights", "spqr"},
    {".B_24", "gptq_marlin_24"},
    {".centroids.weight", "vptq"},
    {".res_centroids.weight", "vptq"},
    {".quantized_weight_values", "fouroversix"},
    {".bitmask", "sparse-bitmask"},
    {".scale_packed", "marlin-24"},
};

/// Integers of two dimensions or more. I64 are positions and indices, never codes.
bool may_be_codes(const StoredTensor& tensor) {
  switch (tensor.type) {
    case ElementType::kI8:
    case ElementType::kU8:
    case ElementType::kI16:
    case ElementType::kU16:
    case ElementType::kI32:
    case ElementType::kU32:
    case ElementType::kF4:
      return tensor.shape.size() >= 2;
    default:
      return false;
  }
}

/// The module that `name` lies in: all up to the last dot, and less what markers have before it.
std::string_view module_of(std::string_view name) {
  for (const std::string_view inner : {".centroids.weight", ".res_centroids.weight"}) {
    if (name.ends_with(inner)) {
      return name.substr(0, name.size() - inner.size());
    }
  }
  const std::size_t dot = name.rfind('.');
  std::string_view module =
      dot == std::string_view::npos ? std::string_view() : name.substr(0, dot);
  if (module.ends_with(".weight")) {
    module.remove_suffix(7);
  }
  return module;
}

std::string scheme_of(const SchemeMarker& marker, const QuantClaims& claims) {
  const bool sparse = marker.scheme == "sparse-bitmask" && !claims.sparsity.empty();
  return sparse ? claims.sparsity : std::string(marker.scheme);
}

/// Modules of such schemes, by name.
using Modules = std::unordered_map<std::string_view, std::string>;

Modules marked_modules(const input::ModelFiles& files, const QuantClaims& claims) {
  Modules modules;
  for (const StoredTensor& tensor : files.tensors) {
    for (const SchemeMarker& marker : kSchemeMarkers) {
      if (std::string_view(tensor.name).ends_with(marker.suffix)) {
        modules.try_emplace(module_of(tensor.name), scheme_of(marker, claims));
      }
    }
  }
  return modules;
}

/// What the configuration calls a layout of which no weight is read; empty: none.
std::string foreign_name(const QuantClaims& claims) {
  if (has_word(kForeignMethods, claims.method)) {
    return claims.method;
  }
  const bool gptq = claims.method == "gptq";
  const std::string layout =
      gptq || claims.method == "awq" ? refused_layout(claims, gptq) : std::string();
  if (!layout.empty()) {
    return "INT/" + layout;
  }
  return claims.format == "marlin-24" ? "INT/marlin-24" : "";
}

/// Adds the modules with codes that no scheme explains, or with any where the method is foreign.
void add_modules_of_method(const input::ModelFiles& files, const QuantClaims& claims,
                           const std::vector<bool>& bound, Modules& modules) {
  const std::string name = foreign_name(claims);
  const bool foreign = !name.empty();
  if (!foreign && (claims.method.empty() || has_word(kReadMethods, claims.method))) {
    return;
  }
  Modules found;
  for (std::size_t i = 0; i < files.tensors.size(); ++i) {
    const StoredTensor& tensor = files.tensors[i];
    if (may_be_codes(tensor) && (foreign || !bound[i])) {
      found.try_emplace(module_of(tensor.name), foreign ? name : claims.method);
    }
  }
  // A weight of floats beside integers is itself; they are something else.
  for (const StoredTensor& tensor : files.tensors) {
    if (tensor.shape.size() >= 2 && is_full_float(tensor.type) &&
        tensor.name.ends_with(".weight")) {
      found.erase(module_of(tensor.name));
    }
  }
  modules.merge(found);
}

}  // namespace

std::vector<ForeignWeight> foreign_weights(const input::ModelFiles& files,
                                           const QuantClaims& claims,
                                           const std::vector<bool>& bound) {
  std::vector<ForeignWeight> weights;
  if (files.format == input::ContainerFormat::kGguf) {
    return weights;
  }
  Modules modules = marked_modules(files, claims);
  add_modules_of_method(files, claims, bound, modules);
  if (modules.empty()) {
    return weights;
  }
  std::unordered_map<std::string_view, std::size_t> place;
  for (std::size_t i = 0; i < files.tensors.size(); ++i) {
    const std::string_view name = files.tensors[i].name;
    const std::string_view module = module_of(name);
    const auto found = modules.find(module);
    if (found == modules.end() || name.ends_with(".bias")) {
      continue;
    }
    const auto [at, is_new] = place.try_emplace(module, weights.size());
    if (is_new) {
      const std::string prefix(module);
      weights.push_back({prefix.empty() ? "weight" : prefix + ".weight", found->second, {}});
    }
    std::vector<std::int32_t>& stored = weights[at->second].stored;
    stored.push_back(static_cast<std::int32_t>(i));
    const auto bytes = [&](std::int32_t t) {
      return files.tensors[static_cast<std::size_t>(t)].bytes;
    };
    if (bytes(stored.back()) > bytes(stored.front())) {
      std::swap(stored.back(), stored.front());
    }
  }
  return weights;
}

}  // namespace vindex::model
