// Owns what an adapter says of its own scale: adapter_config.json (PEFT), or the keys of a GGUF
// adapter (llama.cpp).
#pragma once

#include <vindex/core/warning.hpp>
#include <vindex/shard/model_files.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace re2 {
class RE2;
}

namespace vindex::model {

class AdapterConfig {
 public:
  /// Errors: FormatError E-LORA-TYPE for an adapter that is no LoRA, E-LORA-ALPHA for an alpha that
  /// is no finite number.
  AdapterConfig(const shard::ModelFiles& files, std::vector<Warning>& warnings);
  ~AdapterConfig();

  /// What multiplies B A of `module` (its path in the base model) where A has `rank` rows: alpha /
  /// rank, alpha / sqrt(rank) with use_rslora; 1 where no alpha is known. GGUF: 1 for an alpha of
  /// 0, as llama.cpp takes it.
  double scale(const std::string& module, std::int64_t rank) const;
  /// The rank that the configuration gives `module`.
  std::optional<std::int64_t> rank(const std::string& module) const;
  /// Tensors instead of modules are adapted: experts share a pair in ways that shapes do not tell.
  bool targets_parameters() const { return targets_parameters_; }
  bool is_dora() const { return dora_; }

 private:
  using Patterns = std::vector<std::pair<std::unique_ptr<re2::RE2>, double>>;
  void read_peft(const JsonValue& config, std::vector<Warning>& warnings);
  void read_gguf(const shard::ModelFiles& files);
  static Patterns patterns(const JsonValue& config, const char* key,
                           std::vector<Warning>& warnings);
  static std::optional<double> first_match(const Patterns& patterns, const std::string& module);

  std::optional<double> alpha_;
  std::optional<double> rank_;
  Patterns alpha_patterns_, rank_patterns_;
  bool root_ = false, dora_ = false, targets_parameters_ = false, zero_means_one_ = false;
};

}  // namespace vindex::model
