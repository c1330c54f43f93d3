// Owns the specs: which text names which model.
#include "make_model.hpp"

#include "model_plan.hpp"
#include "random.hpp"

#include "write/output_folder.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

namespace vindex::synth {
namespace {

constexpr std::string_view kMini = "kimi-k2-mini";
constexpr std::string_view kLayer = "layer:";
// Above this a single matrix would not fit the memory of the machines meant (64 GB of floats).
constexpr std::int64_t kMaxWeights = std::int64_t{1} << 34;
constexpr std::int64_t kMaxExperts = 100'000;

[[noreturn]] void refuse(const std::string& spec, const std::string& reason) {
  std::string known;
  for (const std::string& name : known_specs()) {
    known += (known.empty() ? "" : ", ") + name;
  }
  throw UsageError("E-SYNTH-SPEC",
                   "model spec \"" + printable(spec) + "\": " + reason + "; known: " + known);
}

// The part of `text` before `separator`, which is taken off with it.
std::string_view take(std::string_view& text, char separator) {
  const std::size_t end = text.find(separator);
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return part;
}

std::optional<std::int64_t> positive(std::string_view text) {
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  return result.ec == std::errc() && result.ptr == end && value > 0 ? std::optional(value)
                                                                    : std::nullopt;
}

std::optional<Variant> mini_variant(std::string_view suffix) {
  if (suffix.empty()) {
    return Variant::kFp8;
  }
  if (suffix == "-int4") {
    return Variant::kInt4;
  }
  if (suffix == "-bf16") {
    return Variant::kBf16;
  }
  return suffix == "-q8_0" ? std::optional(Variant::kQ8_0) : std::nullopt;
}

std::optional<Kind> layer_kind(std::string_view name) {
  const auto* const found = std::find_if(kLayerKinds.begin(), kLayerKinds.end(),
                                         [&](Kind kind) { return kind_name(kind) == name; });
  return found == kLayerKinds.end() ? std::nullopt : std::optional(*found);
}

std::string layer_kind_names(std::string_view separator) {
  std::string names;
  for (const Kind kind : kLayerKinds) {
    names += (names.empty() ? "" : std::string(separator)) + std::string(kind_name(kind));
  }
  return names;
}

ModelPlan parse_layer(const std::string& spec, std::uint64_t seed) {
  std::string_view rest = std::string_view(spec).substr(kLayer.size());
  std::string_view shape = take(rest, ':');
  const auto experts = positive(take(shape, 'x'));
  const auto rows = positive(take(shape, 'x'));
  const auto cols = positive(shape);
  if (!experts || !rows || !cols) {
    refuse(spec, "EXPERTSxROWSxCOLS must be three positive numbers");
  }
  if (*experts > kMaxExperts || *rows > kMaxWeights / *cols) {
    refuse(spec, "at most 100000 experts of 2^34 weights");
  }
  const std::string_view encoding = take(rest, ':');
  std::optional<Variant> variant;
  if (encoding == "fp8") {
    variant = Variant::kFp8;
  } else if (encoding == "int4") {
    variant = Variant::kInt4;
  } else if (encoding == "bf16") {
    variant = Variant::kBf16;
  } else {
    refuse(spec, "the encoding must be fp8, int4 or bf16");
  }
  const auto kind = rest.empty() ? Kind::kGaussian : layer_kind(rest);
  if (!kind) {
    refuse(spec, "the kind must be one of " + layer_kind_names(", "));
  }
  return plan_layer(*experts, *rows, *cols, *variant, *kind, spec, seed);
}

}  // namespace

std::vector<std::string> known_specs() {
  return {"kimi-k2-mini", "kimi-k2-mini-int4", "kimi-k2-mini-bf16", "kimi-k2-mini-q8_0",
          "layer:EXPERTSxROWSxCOLS:fp8|int4|bf16[:" + layer_kind_names("|") + "]"};
}

void draw_matrix(const std::string& kind, std::uint64_t seed, std::int64_t rows, std::int64_t cols,
                 std::span<float> out) {
  const auto known = layer_kind(kind);
  if (!known) {
    throw UsageError("E-SYNTH-SPEC", "kind of weights \"" + printable(kind) + "\" is not one of " +
                                         layer_kind_names(", "));
  }
  Recipe recipe = layer_recipe(*known, rows, cols);
  recipe.key = tensor_key(seed, "matrix");
  draw_weights(recipe, out);
}

void make_model(const std::string& spec, std::uint64_t seed, const std::string& folder) {
  std::optional<Variant> variant;
  ModelPlan plan;
  if (spec.starts_with(kMini) &&
      (variant = mini_variant(std::string_view(spec).substr(kMini.size())))) {
    plan = plan_kimi_k2_mini(*variant, spec, seed);
  } else if (spec.starts_with(kLayer)) {
    plan = parse_layer(spec, seed);
  } else {
    refuse(spec, "not known");
  }
  write::OutputFolder output(folder);
  if (variant == Variant::kQ8_0) {
    write_gguf_model(plan, output);
  } else {
    write_huggingface_model(plan, output);
  }
}

}  // namespace vindex::synth
