// Owns writing and reading that text.
#include "carried_rule.hpp"

#include "read_router_rule.hpp"

#include "core/json/json.hpp"
#include "core/json/json_document.hpp"
#include "core/text/text_parts.hpp"
#include "input/model_store.hpp"
#include "input/safetensors/safetensors.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace vindex::model {

namespace {

constexpr std::string_view kRuleSchema = "vindex-router-rule/1";
constexpr std::string_view kLargestScore = "largest";
constexpr std::string_view kTwoLargestScore = "two largest";
constexpr std::uint64_t kMostExperts = 1U << 20U;
constexpr std::uint64_t kMostRuleBytes = 16U << 20U;

/// Members of the text, each of one type.
class RuleMembers {
 public:
  RuleMembers(const JsonValue& document, const std::string& where)
      : document_(document), where_(where) {}

  [[noreturn]] void refuse(const std::string& why) const {
    throw FormatError("E-DUMP-RULE", where_, "the rule of routers in it: " + why);
  }
  const JsonValue& member(std::string_view name) const {
    const JsonValue* value = document_.find(name);
    if (value == nullptr) {
      refuse(fmt::format("there is no {}", name));
    }
    return *value;
  }
  std::string text(std::string_view name) const {
    const std::string* value = member(name).as_string();
    if (value == nullptr) {
      refuse(fmt::format("{} is no text", name));
    }
    return *value;
  }
  bool flag(std::string_view name) const {
    const bool* value = member(name).as_bool();
    if (value == nullptr) {
      refuse(fmt::format("{} is neither true nor false", name));
    }
    return *value;
  }
  std::int64_t count(std::string_view name) const {
    const std::uint64_t* value = member(name).as_unsigned();
    if (value == nullptr || *value < 1 || *value > kMostExperts) {
      refuse(fmt::format("{} is no number from 1 to {}", name, kMostExperts));
    }
    return static_cast<std::int64_t>(*value);
  }
  double number(std::string_view name) const {
    const auto value = member(name).as_number();
    if (!value || !std::isfinite(*value)) {
      refuse(fmt::format("{} is no finite number", name));
    }
    return *value;
  }
  std::vector<float> floats(const std::string& name, const JsonValue& list) const {
    if (list.as_array() == nullptr || list.as_array()->size() > kMostExperts) {
      refuse(fmt::format("the biases of layer {} are no list", excerpt(name)));
    }
    std::vector<float> values;
    for (const JsonValue& element : *list.as_array()) {
      const auto value = element.as_number();
      if (!value || !std::isfinite(static_cast<float>(*value))) {
        refuse(fmt::format("a bias of layer {} is no finite number", excerpt(name)));
      }
      values.push_back(static_cast<float>(*value));
    }
    return values;
  }

 private:
  const JsonValue& document_;
  const std::string& where_;
};

RouterScoring scoring_of(const RuleMembers& members) {
  const std::string name = members.text("scoring");
  for (const RouterScoring scoring :
       {RouterScoring::kSoftmax, RouterScoring::kSigmoid, RouterScoring::kSqrtSoftplus}) {
    if (name == scoring_name(scoring)) {
      return scoring;
    }
  }
  members.refuse(fmt::format("scoring \"{}\" is not known", excerpt(name)));
}

GroupScore group_score_of(const RuleMembers& members) {
  const std::string name = members.text("group_score");
  if (name != kLargestScore && name != kTwoLargestScore) {
    members.refuse(fmt::format("group_score \"{}\" is not known", excerpt(name)));
  }
  return name == kLargestScore ? GroupScore::kLargest : GroupScore::kTwoLargest;
}

}  // namespace

std::string carried_rule_text(const input::ModelFiles& files) {
  const ModelRouters routers = model_routers(files, "");
  const RouterRule& rule = routers.rule;
  Json biases = Json::object();
  for (const auto& [layer, tensor] : routers.bias_tensors) {
    const std::vector<float> values = read_router_bias(files, tensor);
    biases[std::to_string(layer)] =
        Json::list(values, [](float value) { return Json(static_cast<double>(value)); });
  }
  const bool is_largest = rule.group_score == GroupScore::kLargest;
  return Json{{"schema", std::string(kRuleSchema)},
              {"family", routers.family},
              {"scoring", std::string(scoring_name(rule.scoring))},
              {"top_k", rule.top_k},
              {"normalised", rule.normalised},
              {"sum_offset", rule.sum_offset},
              {"scale", rule.scale},
              {"groups", rule.groups},
              {"chosen_groups", rule.chosen_groups},
              {"group_score", std::string(is_largest ? kLargestScore : kTwoLargestScore)},
              {"biased", rule.biased},
              {"expects_bias", routers.expects_bias},
              {"biases", std::move(biases)}}
      .dump();
}

CarriedRule read_carried_rule(const std::string& text, const std::string& where) {
  const JsonValue document = parse_json(text, where, {});
  const RuleMembers members(document, where);
  if (members.text("schema") != kRuleSchema) {
    members.refuse(fmt::format("its schema is not {}", kRuleSchema));
  }
  CarriedRule carried;
  carried.text = text;
  carried.family = excerpt(members.text("family"));
  RouterRule& rule = carried.rule;
  rule.scoring = scoring_of(members);
  rule.top_k = members.count("top_k");
  rule.normalised = members.flag("normalised");
  rule.sum_offset = members.number("sum_offset");
  rule.scale = members.number("scale");
  if (rule.sum_offset < 0.0 || !(rule.scale > 0.0)) {
    members.refuse("sum_offset or scale is negative, or the latter zero");
  }
  rule.groups = members.count("groups");
  rule.chosen_groups = members.count("chosen_groups");
  rule.group_score = group_score_of(members);
  rule.biased = members.flag("biased");
  carried.expects_bias = members.flag("expects_bias");
  const JsonValue& biases = members.member("biases");
  if (biases.as_object() == nullptr) {
    members.refuse("biases is no object");
  }
  for (const auto& [name, list] : *biases.as_object()) {
    const auto layer = whole_number<std::int32_t>(name);
    if (!layer || *layer < 0) {
      members.refuse(fmt::format("\"{}\" is no layer", excerpt(name)));
    }
    carried.biases.emplace(*layer, members.floats(name, list));
  }
  return carried;
}

std::optional<CarriedRule> carried_rule(const Dump& dump) {
  input::ModelStore& store = *dump.files.store;
  if (store.file().empty()) {
    const std::vector<input::StoreMember> members = store.list();
    if (std::none_of(members.begin(), members.end(), [](const input::StoreMember& member) {
          return !member.folder && member.name == kCarriedRuleFile;
        })) {
      return std::nullopt;
    }
    const auto source = store.open(kCarriedRuleFile);
    if (source->size() > kMostRuleBytes) {
      throw FormatError("E-DUMP-RULE", source->name(), "too long for a rule of routers");
    }
    return read_carried_rule(whole_text(*source), source->name());
  }
  if (!store.file().ends_with(".safetensors")) {
    return std::nullopt;
  }
  ByteSource& source = *dump.files.shards.front().source;
  for (const auto& [key, value] : input::read_safetensors_metadata(source)) {
    if (key == kCarriedRuleKey) {
      return read_carried_rule(value, source.name());
    }
  }
  return std::nullopt;
}

}  // namespace vindex::model
