// Owns which keys of PEFT's adapter_config.json change what an adapter does, and how: those that
// say how it was trained or found are passed over, those that make it more than a sum of products
// are told, and what is of another kind than PEFT's own is refused.
// Source: PEFT src/peft/config.py and src/peft/tuners/lora/{config,layer,variants}.py, 0.21.
#pragma once

#include <vindex/core/error.hpp>
#include <vindex/core/json.hpp>

#include <optional>
#include <string>
#include <vector>

namespace vindex::model {

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

}  // namespace vindex::model
