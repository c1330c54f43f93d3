// Owns the keys that decide what a forward pass computes, of config.json or of a GGUF file: strict,
// bounded, with what a family takes where a key is absent.
#pragma once

#include "transformer_families.hpp"

#include "architecture/gating.hpp"
#include "input/model_files.hpp"
#include "model/config/model_config.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vindex::model {

class TransformerKeys {
 public:
  /// `files` must outlive this. Errors: ConfigurationError (78) E-TRACE-FAMILY for a family that is
  /// not in the table.
  explicit TransformerKeys(const input::ModelFiles& files);
  TransformerKeys(const TransformerKeys&) = delete;
  TransformerKeys& operator=(const TransformerKeys&) = delete;

  const TransformerFamily& family() const { return *family_; }
  /// As the file spells it.
  const std::string& family_name() const { return family_name_; }
  Dialect dialect() const { return dialect_; }
  bool is_gguf() const { return dialect_ == Dialect::kGguf; }

  // Errors of all: ConfigurationError (78) E-TRACE-KEY, naming the key.

  /// From 1 to 2^30: two of them multiply, and the sum of two with a third, within 64 bits.
  std::int64_t count(const KeyNames& names) const;
  std::optional<std::int64_t> count_if(const KeyNames& names) const;
  /// The same from 0 on; what says null is 0.
  std::int64_t size_or(const KeyNames& names, std::int64_t otherwise) const;
  /// Positive and finite.
  double positive_or(const KeyNames& names, double otherwise) const;
  std::optional<double> number(const KeyNames& names) const {
    return value_of(keys_.number(names));
  }
  std::optional<bool> boolean(const KeyNames& names) const { return keys_.boolean(names); }
  std::optional<std::string> text(const KeyNames& names) const {
    return value_of(keys_.text(names));
  }
  /// A soft cap: null and, in a GGUF file, 0 are none, which is 0.
  double cap_or(const KeyNames& names, double otherwise) const;
  Gating gating() const;
  /// The first of `names` that config.json holds, or null.
  const JsonValue* member(std::initializer_list<std::string_view> names) const {
    return claims_.config_member(names).second;
  }
  const gguf::Key* gguf_key(std::string_view name) const { return claims_.gguf_key({name}); }
  /// Whether the first section of config.json that has `key` holds null there.
  bool says_null(std::string_view key) const;
  [[noreturn]] void refuse(const std::string& why) const { keys_.refuse(why); }

 private:
  template <typename Value>
  static std::optional<Value> value_of(const std::optional<NamedValue<Value>>& named) {
    return named ? std::optional(named->value) : std::nullopt;
  }
  std::int64_t bounded(const NamedValue<std::uint64_t>& found, std::uint64_t least) const;
  bool says_null(const KeyNames& names) const;

  const input::ModelFiles& files_;
  std::vector<Warning> unused_;  // the index says them
  Claims claims_;
  StrictKeys keys_;
  Dialect dialect_;
  std::string family_name_;
  const TransformerFamily* family_ = nullptr;
};

/// How far back each layer of a model sees.
class LayerWindows {
 public:
  explicit LayerWindows(const TransformerKeys& keys);
  /// Tokens that a token of `layer` sees, itself among them; 0: all before it.
  std::int64_t at(std::int64_t layer) const { return is_sliding(layer) ? window_ : 0; }
  /// Whether the layer is of the kind with a window: also of a family with rotations of its own
  /// for it.
  bool is_sliding(std::int64_t layer) const;

 private:
  void read_types(const TransformerKeys& keys);
  void read_pattern(const TransformerKeys& keys);

  WindowRule rule_;
  std::int64_t window_ = 0;
  std::int64_t period_ = 1;  ///< every such layer sees all
  std::int64_t bound_ = 0;   ///< max_window_layers
  std::vector<bool> types_;  ///< by layer, where the model lists them
};

}  // namespace vindex::model
