// Owns what an adapter says of its own scale: adapter_config.json (PEFT, MLX), or the keys of a
// GGUF adapter (llama.cpp).
#pragma once

#include "parameter_targets.hpp"

#include <vindex/core/error.hpp>
#include <vindex/shard/model_files.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace re2 {
class RE2;
}

namespace vindex::model {

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
  AdapterConfig(const shard::ModelFiles& files, bool mlx, std::vector<Warning>& warnings);

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
  void read_gguf(const shard::ModelFiles& files, std::vector<Warning>& warnings);
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
