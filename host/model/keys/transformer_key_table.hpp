// Owns what a forward pass makes of every key that a model of a traced family may have: used,
// passed over because it changes nothing, or, of all others, named in a warning; and keys that are
// used here although transformers has no use for them. docs/models/trace-families.md has the same
// lists, with their sources.
#pragma once
#include "input/model_files.hpp"
#include "model/families/tensor_name.hpp"
#include <vindex/error.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vindex::model {

enum class KeyUse : std::uint8_t {
  kUsed,        ///< decides what is computed, is confirmed by shapes, or is refused where not known
  kPassedOver,  ///< changes nothing, whatever its value, or with one value
  kUsedHere,    ///< used here, and transformers ignores it
  kUnknown,
};

struct KeyRule {
  KeyUse use = KeyUse::kUnknown;
  /// JSON text of the one value with which a key of kPassedOver changes nothing, or with which one
  /// of kUsedHere asks for what transformers computes; empty: any.
  std::string_view value = {};
};

/// Of `key` of config.json, or of a GGUF key without its architecture, in family `family` (a
/// model_type or general.architecture, '_' for '-'). A family that is not traced has the rules of
/// kUsedHere alone.
KeyRule key_rule(Dialect dialect, std::string_view family, std::string_view key);
/// Of a member of rope_parameters or rope_scaling.
KeyRule rope_key_rule(std::string_view key);

/// All keys that have a rule in some family, in order.
std::vector<std::string> listed_keys(Dialect dialect);

/// W-TRACE-KEY for keys of `files` that nothing here uses, and for those that are used here and
/// not by transformers.
std::vector<Warning> trace_key_warnings(const input::ModelFiles& files, std::string_view family);

/// W-ROUTER-KEY for the latter alone: also of families that are not traced.
std::vector<Warning> own_key_warnings(const input::ModelFiles& files, std::string_view family);

}  // namespace vindex::model
