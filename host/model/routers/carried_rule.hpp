// Owns the rule of routers that a dump carries, so that it says by itself where tokens went: a text
// beside the arrays, router_rule.json, or the metadata `router_rule` of a dump in one file.
#pragma once

#include "architecture/router_rule.hpp"
#include "model/dump/dump.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vindex::model {

inline constexpr std::string_view kCarriedRuleFile = "router_rule.json";
inline constexpr std::string_view kCarriedRuleKey = "router_rule";

struct CarriedRule {
  RouterRule rule;
  std::string family;                                 ///< whose rule it is
  bool expects_bias = false;                          ///< read_router_rule.hpp
  std::map<std::int32_t, std::vector<float>> biases;  ///< by layer, where there are some
  std::string text;                                   ///< as it was read
};

/// The rule of the model in `files` as such a text, one line of JSON:
///   {"schema": "vindex-router-rule/1", "family": "mixtral", "scoring": "softmax", "top_k": 2,
///    "normalised": true, "sum_offset": 0, "scale": 1, "groups": 1, "chosen_groups": 1,
///    "group_score": "two largest", "biased": false, "expects_bias": false,
///    "biases": {"3": [0.5, ...]}}
/// Numbers are read back to the same bits. Errors: those of model_routers() and
/// read_router_bias().
std::string carried_rule_text(const input::ModelFiles& files);

/// Errors: FormatError (65) E-DUMP-RULE for a text that is none of those; E-JSON-*.
CarriedRule read_carried_rule(const std::string& text, const std::string& where);

/// What `dump` carries. Errors: as above; those of reading.
std::optional<CarriedRule> carried_rule(const Dump& dump);

}  // namespace vindex::model
