// Owns keys as JSON and back, losslessly: {"key": name, "type": "u32", "value": 7}; arrays
// have "subtype" and "count". Numbers keep every bit (a float that is not finite stands as {"bits":
// "0x7fc00000"}), long arrays and strings and text that is not UTF-8 lie in a GGUF file beside
// the manifest under their own names and types: {"array_ref": "kv.gguf"}.
#pragma once

#include "core/files/byte_source.hpp"
#include "core/json/json.hpp"
#include "core/json/json_document.hpp"
#include "gguf/header.hpp"
#include "gguf/writing/key_section.hpp"

#include <string>

namespace vindex::organ {

/// The entry of `key`. What does not stand in JSON is copied into `sidecar`, which the entry calls
/// `sidecar_name`. Errors: FormatError E-ORGAN-NAME for a key whose name is not UTF-8.
Json key_entry(const gguf::Key& key, const gguf::Header& header, ByteSource& source,
               gguf::KeySection& sidecar, const std::string& sidecar_name);

/// The keys of a sidecar file, for entries that refer to it.
struct KeySidecar {
  std::string name;
  const gguf::Header* header = nullptr;  ///< null: there is no such file
  ByteSource* source = nullptr;
};

/// Adds the key that `entry` describes. `where` names the manifest. Errors: FormatError
/// E-ORGAN-MANIFEST for an entry that is none, a number outside its type, a reference to what is
/// not there; those of gguf::KeySection.
void add_key_entry(const JsonValue& entry, const std::string& where, const KeySidecar& sidecar,
                   gguf::KeySection& keys);

}  // namespace vindex::organ
