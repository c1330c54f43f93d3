// Owns what an adapter says of itself: adapter_config.json (PEFT, MLX), or the keys of a GGUF
// adapter (llama.cpp). Its scale; PEFT's target_parameters; and which keys change what an adapter
// does, and how: those that say how it was trained or found are passed over, those that make it
// more than a sum of products are told, and what is of another kind than PEFT's own is refused.
// A stack of E experts has a pair of rank r for each, side by side: A [E r, in], rows e r to (e +
// 1) r of expert e; B [out, r E], columns e, e + E, e + 2 E, ... of expert e. Several parameters of
// one module have wrappers that lie in each other, the one that the model's class declares last
// outermost.
// Source: PEFT 0.21, src/peft/config.py, src/peft/tuners/lora/{config,layer,variants}.py
// (ParamWrapper) and tuners/tuners_utils.py (_inject_parameters), which takes a parameter whose
// path is a target or ends in one.
#pragma once

#include "core/json/json.hpp"
#include "input/model_files.hpp"
#include <vindex/error.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace re2 {
class RE2;
}

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

/// What PEFT takes for set, but for a few keys: everything but null, false, 0 and what is empty.
bool is_set(const JsonValue* value);

/// A finite or infinite number; nothing for what is none.
std::optional<double> number_of(const JsonValue* value);

/// Member `key`, false where it is absent or null. Errors: ConfigurationError E-LORA-CONFIG for
/// what is no truth value: PEFT takes 1 and "false" for true.
bool flag_of(const JsonValue& config, const char* key);

/// What the keys make of an adapter.
struct AdapterKind {
  /// Why the model that it gives is another one than W + s B A; the products are what they are.
  std::vector<std::string> more_than_products;
  /// Why the factors do not give the product; empty where they do.
  std::string no_products;
};

/// Errors: ConfigurationError E-LORA-CONFIG for what is no JSON object. Warnings: W-LORA-KEYS for
/// keys that are set and unknown here.
AdapterKind read_adapter_kind(const JsonValue& config, std::vector<Warning>& warnings);

/// The end of a module's path, from a dot on, as PEFT matches the keys of its patterns. What has
/// no other special character than the dot is compared without an expression.
class ModulePattern {
 public:
  /// `text` as an expression where `is_plain(text)` is false.
  explicit ModulePattern(const std::string& text);
  ~ModulePattern();
  ModulePattern(ModulePattern&&) noexcept;

  static bool is_plain(std::string_view text);
  bool readable() const;
  bool matches(std::string_view module) const;

 private:
  std::string plain_;
  std::unique_ptr<re2::RE2> expression_;  ///< null where it is plain
};

class AdapterConfig {
 public:
  /// `mlx`: its factors have MLX's names. Errors: FormatError E-LORA-TYPE for an adapter that is no
  /// LoRA, E-LORA-ALPHA for an alpha or scale that is not finite; ConfigurationError E-LORA-CONFIG
  /// for values of another kind than the tool's own. Warnings: W-LORA-VARIANT where the adapter is
  /// more than its products.
  AdapterConfig(const input::ModelFiles& files, bool mlx, std::vector<Warning>& warnings);

  /// What multiplies B A of `module` (its path in the base model) where A has `rank` rows: alpha /
  /// rank, alpha / sqrt(rank) with use_rslora; 1 where no configuration is there. GGUF: 1 for an
  /// alpha of 0, as llama.cpp takes it. MLX: its scale, whatever the rank.
  double scale(const std::string& module, std::int64_t rank) const;
  /// The rank that the configuration gives `module`.
  std::optional<std::int64_t> rank(const std::string& module) const;
  /// Why no product can be told for any pair: a pattern of alphas that cannot be read may be
  /// anyone's, factors may be more than two. Empty where one can.
  const std::string& no_products() const { return no_products_; }
  /// Why no rank can be told; empty where one can.
  const std::string& unknown_rank() const { return unknown_rank_; }
  const ParameterTargets& parameters() const { return parameters_; }
  bool is_dora() const { return dora_; }

 private:
  struct Pattern {
    ModulePattern module;
    double value = 0.0;
  };
  using Patterns = std::vector<Pattern>;
  void read_peft(const JsonValue& config, std::vector<Warning>& warnings);
  void read_mlx(const JsonValue& config);
  void read_gguf(const input::ModelFiles& files, std::vector<Warning>& warnings);
  /// The pattern that cannot be read, first of several, is put into `unreadable`.
  static Patterns patterns(const JsonValue& config, const char* key, std::string& unreadable);
  static std::optional<double> first_match(const Patterns& patterns, const std::string& module);

  std::optional<double> alpha_;
  std::optional<double> rank_;
  std::optional<double> fixed_scale_;  ///< MLX
  Patterns alpha_patterns_, rank_patterns_;
  std::string no_products_, unknown_rank_;
  ParameterTargets parameters_;
  bool root_ = false, dora_ = false, zero_means_one_ = false;
};

}  // namespace vindex::model
