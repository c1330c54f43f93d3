// Owns PEFT's target_parameters: which parameters of a module its wrappers adapt. A stack of E
// experts has a pair of rank r for each, side by side: A [E r, in], rows e r to (e + 1) r of expert
// e; B [out, r E], columns e, e + E, e + 2 E, ... of expert e. Several parameters of one module
// have wrappers that lie in each other, the one that the model's class declares last outermost.
// Source: PEFT src/peft/tuners/lora/layer.py (ParamWrapper) and tuners/tuners_utils.py
// (_inject_parameters), which takes a parameter whose path is a target or ends in one.
#pragma once

#include <vindex/core/json.hpp>

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace vindex::model {

class ParameterTargets {
 public:
  ParameterTargets() = default;
  /// Of adapter_config.json. Errors: ConfigurationError E-LORA-CONFIG for a value that is no list
  /// of texts.
  explicit ParameterTargets(const JsonValue& config);

  /// What is known of `module`.
  struct Wrapped {
    std::vector<std::string> parameters;  ///< outermost first; empty: the module is adapted
    bool certain = true;                  ///< false: a target without a module may be of any
    std::string unknown;                  ///< why it cannot be told, else empty
  };
  /// `wrappers`: how many pairs of factors the module has.
  Wrapped of(const std::string& module, std::size_t wrappers) const;

 private:
  bool targets_module(const std::string& module) const;

  /// Names of parameters by the module's path, or its end; "" for targets without one.
  std::unordered_map<std::string, std::vector<std::string>> parameters_;
  std::unordered_set<std::string> modules_;
};

}  // namespace vindex::model
