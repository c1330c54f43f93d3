// Owns the facts of an architecture that are read off config.json or GGUF keys.
// Sources: transformers' configuration classes (rope_scaling, since 5.0 rope_parameters);
// llama.cpp gguf-py/gguf/constants.py; DeepSeek-V2 report for the ranks.
#include "architecture_facts.hpp"

#include "model/config/model_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <variant>
#include <vector>

namespace vindex::model {

namespace {

constexpr std::uint64_t kMostClaimed = std::uint64_t{1} << 53U;

std::optional<std::int64_t> sane(std::uint64_t value) {
  return value <= kMostClaimed ? std::optional(static_cast<std::int64_t>(value)) : std::nullopt;
}

class FactReader {
 public:
  explicit FactReader(const input::ModelFiles& files) : claims_(files, unused_) {}

  std::optional<std::int64_t> number(std::initializer_list<std::string_view> config,
                                     std::initializer_list<std::string_view> gguf) {
    const auto claim = claims_.number(config, gguf);
    return claim ? sane(claim->value) : std::nullopt;
  }
  std::optional<double> real(std::initializer_list<std::string_view> config,
                             std::initializer_list<std::string_view> gguf) const {
    const auto found = claims_.real(config, gguf);
    return found ? std::optional(found->second) : std::nullopt;
  }
  /// One number, or a list with one for each layer.
  std::optional<LayerNumber> per_layer(std::string_view config, std::string_view gguf) {
    if (const auto one = number({config}, {gguf})) {
      return LayerNumber{*one, *one};
    }
    std::vector<std::int64_t> values;
    if (const gguf::Key* key = claims_.gguf_key({gguf})) {
      values = key->integers;
    } else if (const JsonValue* list = claims_.config_member({config}).second;
               list != nullptr && list->as_array() != nullptr) {
      for (const JsonValue& element : *list->as_array()) {
        const std::uint64_t* value = element.as_unsigned();
        if (value == nullptr || !sane(*value)) {
          return std::nullopt;
        }
        values.push_back(static_cast<std::int64_t>(*value));
      }
    }
    if (values.empty()) {
      return std::nullopt;
    }
    const auto [least, most] = std::minmax_element(values.begin(), values.end());
    return LayerNumber{*least, *most};
  }
  void rope(ArchitectureFacts& facts);

 private:
  void rope_of(const JsonValue& object, ArchitectureFacts& facts);

  std::vector<Warning> unused_;  // index_model() says what is of a wrong type
  Claims claims_;
};

std::optional<double> real_member(const JsonValue& object, std::string_view name) {
  const JsonValue* value = object.find(name);
  const auto number = value == nullptr ? std::nullopt : value->as_number();
  return number && std::isfinite(*number) ? number : std::nullopt;
}

void FactReader::rope_of(const JsonValue& object, ArchitectureFacts& facts) {
  for (const std::string_view name : {"rope_type", "type"}) {
    const JsonValue* type = object.find(name);
    const std::string* text = type == nullptr ? nullptr : type->as_string();
    if (text != nullptr && facts.rope_scaling.empty() && *text != "default") {
      facts.rope_scaling = text->substr(0, 32);
    }
  }
  if (const auto base = real_member(object, "rope_theta")) {
    facts.rope_base = base;
  }
  facts.rope_factor = real_member(object, "factor");
  const JsonValue* original = object.find("original_max_position_embeddings");
  if (original != nullptr && original->as_unsigned() != nullptr) {
    facts.rope_original = sane(*original->as_unsigned());
  }
}

void FactReader::rope(ArchitectureFacts& facts) {
  facts.rope_base = real({"rope_theta", "rotary_emb_base"}, {"rope.freq_base"});
  facts.rope_factor = real({}, {"rope.scaling.factor", "rope.scale_linear"});
  facts.rope_original = number({}, {"rope.scaling.original_context_length"});
  if (const gguf::Key* type = claims_.gguf_key({"rope.scaling.type"})) {
    const auto* text = std::get_if<std::string>(&type->value);
    if (text != nullptr && *text != "none") {
      facts.rope_scaling = text->substr(0, 32);
    }
  }
  const JsonValue* scaling = claims_.config_member({"rope_parameters", "rope_scaling"}).second;
  if (scaling != nullptr && scaling->as_object() != nullptr) {
    rope_of(*scaling, facts);
  }
}

Json number_json(const std::optional<LayerNumber>& number) {
  if (!number) {
    return nullptr;
  }
  return number->least == number->most ? Json(number->least)
                                       : Json{{"least", number->least}, {"most", number->most}};
}

}  // namespace

ArchitectureFacts architecture_facts(const input::ModelFiles& files) {
  FactReader read(files);
  ArchitectureFacts facts;
  facts.context_length = read.number({"max_position_embeddings", "n_positions", "n_ctx",
                                      "max_sequence_length", "max_seq_len", "seq_length"},
                                     {"context_length"});
  facts.heads = read.per_layer("num_attention_heads", "attention.head_count");
  facts.kv_heads = read.per_layer("num_key_value_heads", "attention.head_count_kv");
  facts.head_dim = read.number({"head_dim"}, {"attention.key_length"});
  facts.kv_lora_rank = read.number({"kv_lora_rank"}, {"attention.kv_lora_rank"});
  facts.q_lora_rank = read.number({"q_lora_rank"}, {"attention.q_lora_rank"});
  facts.rope_head_dim = read.number({"qk_rope_head_dim"}, {"rope.dimension_count"});
  read.rope(facts);
  return facts;
}

Json architecture_json(const ArchitectureFacts& facts) {
  Json mla = nullptr;
  if (facts.is_mla()) {
    mla = {{"kv_lora_rank", Json::given(facts.kv_lora_rank)},
           {"q_lora_rank", Json::given(facts.q_lora_rank)},
           {"rope_head_dim", Json::given(facts.rope_head_dim)}};
  }
  return {{"context_length", Json::given(facts.context_length)},
          {"rope",
           {{"base", Json::given(facts.rope_base)},
            {"scaling", Json::given(facts.rope_scaling)},
            {"factor", Json::given(facts.rope_factor)},
            {"original_context", Json::given(facts.rope_original)}}},
          {"heads", number_json(facts.heads)},
          {"kv_heads", number_json(facts.kv_heads)},
          {"head_dim", Json::given(facts.head_dim)},
          {"mla", std::move(mla)}};
}

std::string rope_text(const ArchitectureFacts& facts) {
  std::string text = facts.rope_scaling;
  if (facts.rope_factor && !text.empty()) {
    text += fmt::format(" x{:g}", *facts.rope_factor);
  }
  if (facts.rope_original && !text.empty()) {
    text += fmt::format(" of {}", *facts.rope_original);
  }
  if (facts.rope_base) {
    text += fmt::format("{}base {:g}", text.empty() ? "" : ", ", *facts.rope_base);
  }
  return text.empty() ? "-" : text;
}

std::string kv_text(const ArchitectureFacts& facts) {
  if (facts.is_mla()) {
    return fmt::format("MLA {}", *facts.kv_lora_rank);
  }
  if (!facts.kv_heads) {
    return "-";
  }
  const auto& [least, most] = *facts.kv_heads;
  return least == most ? std::to_string(most) : fmt::format("{} to {}", least, most);
}

}  // namespace vindex::model
