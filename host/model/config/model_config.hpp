// Owns reading of what config.json or the GGUF keys CLAIM. Claims may be of a wrong type, absurd or
// absent; nothing here throws for that, and nothing downstream computes with a claim before the
// tensors' shapes have confirmed it. But for keys whose value decides what is computed
// (StrictKeys): of the first that is there, a value of another type is refused by its name.
#pragma once
#include "input/model_files.hpp"
#include <vindex/error.hpp>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vindex::model {

/// A number found under one of several keys.
struct Claim {
  std::string key;
  std::uint64_t value = 0;
};

/// Claims of one model, whatever its container.
class Claims {
 public:
  Claims(const input::ModelFiles& files, std::vector<Warning>& warnings);

  /// model_type or general.architecture; empty if none.
  const std::string& architecture() const { return architecture_; }
  /// model_type of the language model inside a wrapper; empty if none.
  const std::string& inner_architecture() const { return inner_architecture_; }
  /// general.type of a GGUF file; empty if none.
  const std::string& file_type() const { return file_type_; }

  /// The first of `config_keys` (config.json, the language model's section before the wrapper's),
  /// or of `gguf_keys` (without the architecture's prefix), that holds a non-negative integer. A
  /// value of another type gives a warning. Booleans and nulls count as absent.
  std::optional<Claim> number(std::initializer_list<std::string_view> config_keys,
                              std::initializer_list<std::string_view> gguf_keys);
  /// The same of any finite number, with the key that holds it; other values count as absent.
  /// Errors: FormatError (65) E-CONFIG-NUMBER for a number of config.json that is not finite.
  std::optional<std::pair<std::string, double>> real(
      std::initializer_list<std::string_view> config_keys,
      std::initializer_list<std::string_view> gguf_keys) const;
  /// The first of `keys` that config.json holds (sections as for number()) with a value that is not
  /// null, whatever its type; null where none is there, and for a GGUF file.
  std::pair<std::string_view, const JsonValue*> config_member(
      std::initializer_list<std::string_view> keys) const;
  /// The first of `keys` (without the architecture's prefix) that a GGUF file has, or null.
  const gguf::Key* gguf_key(std::initializer_list<std::string_view> keys) const;
  /// True where config.json holds `key` as true.
  bool flag(std::string_view key) const;
  /// The first of the keys, as for number(), that holds true or false.
  std::optional<bool> boolean(std::initializer_list<std::string_view> config_keys,
                              std::initializer_list<std::string_view> gguf_keys) const;
  /// The first of the keys of config.json that holds a string, cut where it is absurd; else empty.
  std::string text(std::initializer_list<std::string_view> config_keys) const;

 private:
  std::optional<Claim> config_number(std::string_view key);
  std::optional<Claim> gguf_number(std::string_view key);
  void warn_type(const std::string& key);

  const input::ModelFiles& files_;
  std::vector<Warning>& warnings_;
  std::vector<const JsonValue*> sections_;  ///< where numbers are looked for, in order
  std::string architecture_;
  std::string inner_architecture_;
  std::string file_type_;
};

/// One group of compressed-tensors' config_groups.
struct QuantGroup {
  std::int32_t bits = 0;
  std::int32_t group = 0;  ///< 0: none given
  bool symmetric = true;
  std::string mode = {};  ///< MLX, of one module
};

/// quantization_config, as claimed.
struct QuantClaims {
  bool present = false;
  std::string method;
  std::string format;
  std::string algorithm;  ///< ModelOpt: "NVFP4", "FP8", "W4A16_AWQ"
  std::optional<std::pair<std::int32_t, std::int32_t>> block;  ///< rows, columns
  std::vector<QuantGroup> groups;
  std::int32_t bits = 0;
  std::int32_t group = 0;
  std::string mode;               ///< MLX: "affine", "mxfp4", "nvfp4"
  std::string checkpoint_format;  ///< GPTQ: "gptq", "gptq_v2"
  std::string packing_format;     ///< auto-round
  std::string version;            ///< AWQ: "gemm"
  std::string backend;            ///< AWQ: "llm-awq"
  std::string linear_class;       ///< BitNet: "bitlinear", "autobitlinear"
  std::string sparsity;           ///< compressed-tensors: "sparse-24-bitmask"
  bool gptqmodel = false;         ///< GPTQ: written by GPTQModel
  bool activation_order = false;  ///< GPTQ: desc_act
  bool marlin = false;            ///< GPTQ: is_marlin_format
  /// MLX: modules with a width of their own, in order of name.
  std::vector<std::pair<std::string, QuantGroup>> modules;

  /// What `module` (a logical name without `.weight`) has of its own, or null.
  const QuantGroup* module(std::string_view name) const;
};

/// Reads quantization_config, at the top or within text_config, or hf_quant_config.json.
QuantClaims read_quant_claims(const input::ModelFiles& files, std::vector<Warning>& warnings);

/// Names of a key in config.json and, without the architecture's prefix, in GGUF files.
struct KeyNames {
  std::initializer_list<std::string_view> config = {};
  std::initializer_list<std::string_view> gguf = {};
};

template <typename Value>
struct NamedValue {
  std::string key;
  Value value{};
};

/// Nothing where no key is there; null counts as that. Errors: ConfigurationError (78) of `id`,
/// which says the key, what it holds and what is needed, and ends with `advice`.
class StrictKeys {
 public:
  StrictKeys(const Claims& claims, std::string id, std::string what, std::string advice)
      : claims_(claims), id_(std::move(id)), what_(std::move(what)), advice_(std::move(advice)) {}

  /// A non-negative integer, or a list of equal ones (one a layer).
  std::optional<NamedValue<std::uint64_t>> count(const KeyNames& names) const;
  std::optional<NamedValue<double>> number(const KeyNames& names) const;
  std::optional<bool> boolean(const KeyNames& names) const;
  std::optional<NamedValue<std::string>> text(const KeyNames& names) const;

  /// Ends with "WHAT: why ADVICE".
  [[noreturn]] void refuse(const std::string& why) const;

 private:
  template <typename Value, typename Read>
  std::optional<NamedValue<Value>> read(const KeyNames& names, std::string_view needed,
                                        Read value_of) const;

  const Claims& claims_;
  std::string id_, what_, advice_;
};

}  // namespace vindex::model
