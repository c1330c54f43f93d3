// Owns manifest.json of a model that was taken apart (schema organ-manifest/1,
// docs/files/organ-schemas.md): written by extract, read when the folder is opened again. It is
// untrusted when read.
//
// Also owns keys as JSON and back, losslessly: {"key": name, "type": "u32", "value": 7}; arrays
// have "subtype" and "count". Numbers keep every bit (a float that is not finite stands as {"bits":
// "0x7fc00000"}), long arrays and strings and text that is not UTF-8 lie in a GGUF file beside
// the manifest under their own names and types: {"array_ref": "kv.gguf"}.
#pragma once

#include "core/json/json.hpp"
#include "core/json/json_document.hpp"
#include "decode/element_type.hpp"
#include "gguf/header.hpp"
#include "gguf/key_section.hpp"
#include "organ/extract/gguf_source.hpp"
#include "organ/extract/organ_class.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace vindex::organ {

inline constexpr const char* kManifestName = "manifest.json";
inline constexpr const char* kManifestSchema = "organ-manifest/1";

/// Larger ones are neither read nor written, so that a refusal takes little memory.
inline constexpr std::uint64_t kLargestManifest = std::uint64_t{112} << 20U;
inline constexpr std::size_t kMaxManifestTensors = 262'144;

/// One tensor of a manifest, in the model's order.
struct ManifestTensor : gguf::Tensor {
  std::size_t split = 0;
  /// Within the folder, where its bytes were copied; empty: they lie in the source's file `split`.
  std::string file = {};
  std::string sha256 = {};  ///< empty: not digested
};

/// One file of the model that was taken apart.
struct ManifestFile {
  std::string name;  ///< without folder
  std::string path;  ///< absolute, at extraction
  std::uint64_t bytes = 0;
  std::string version;  ///< SourceIdentity
  std::string header_sha256;
  bool big_endian = false;
  /// No tensors and no padding behind the header: so are some first splits.
  bool bare_end = false;
};

struct Manifest {
  bool safetensors = false;         ///< the model was none of GGUF: nothing to assemble
  bool partial = false;             ///< a selection: not every tensor
  std::uint64_t tensors_total = 0;  ///< of the model
  std::vector<ManifestFile> files;
  std::vector<gguf::KeySection> keys;  ///< of each file
  std::vector<ManifestTensor> tensors;
  std::vector<std::string> side_files;  ///< read for this: the manifest, the keys beside it
  /// What `keys` refers to.
  std::vector<std::unique_ptr<ByteSource>> key_sources;
};

/// Whether `path` is a folder with a manifest, or a manifest. Errors: MissingInputError E-FILE-KIND
/// where what lies under that name in the folder is no file.
bool is_organ_folder(const std::string& path);
/// The folder that `path` (a folder or its manifest.json) means.
std::string organ_folder_of(const std::string& path);

/// Errors: FormatError E-ORGAN-MANIFEST naming what is wrong, E-ORGAN-PATH for a file that would
/// lie outside of the folder, E-ORGAN-SCHEMA for another schema; those of parse_json() and of
/// opening files.
Manifest read_manifest(const std::string& folder);

/// What extract knows besides.
struct ManifestContext {
  std::string tool;     ///< program and version
  std::string created;  ///< ISO 8601
  std::string selection;
  bool by_reference = false;  ///< bytes lie in the source
};

/// The document, and in `sidecars` (by name) the keys that do not stand in it. `tensors` as they
/// were extracted from `source`, `total`: how many the model has.
Json manifest_json(const GgufSource& source, const std::vector<ManifestTensor>& tensors,
                   std::uint64_t total, const ManifestContext& context,
                   std::vector<std::pair<std::string, gguf::KeySection>>& sidecars);

/// The document of any container. `source` and `keys` (null: none) say what it was, `total` how
/// many tensors it has.
Json manifest_document(const ManifestContext& context, std::uint64_t total, Json source, Json keys,
                       const std::vector<ManifestTensor>& tensors);

struct ClassCount {
  std::uint64_t tensors = 0;
  std::uint64_t params = 0;
  std::uint64_t bytes = 0;
};
using ClassCounts = std::array<ClassCount, kOrganClasses>;  ///< by OrganClass

ClassCounts class_counts(const std::vector<ManifestTensor>& tensors);
/// An object with a member for every class.
Json class_counts_json(const ClassCounts& counts);

/// Throws FormatError E-ORGAN-NAME where `name` cannot stand in JSON.
void require_utf8_name(const std::string& name, const std::string& where);

/// A local name made absolute, links followed as far as they exist; other addresses as they are.
std::string absolute_path(const std::string& path);

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
