// Owns manifest.json of a model that was taken apart (schema organ-manifest/1,
// docs/files/organ-schemas.md): written by extract, read when the folder is opened again. It is
// untrusted when read.
#pragma once

#include "core/files/byte_source.hpp"
#include "core/json/json.hpp"
#include "core/json/json_document.hpp"
#include "decode/encoding/element_type.hpp"
#include "gguf/header.hpp"
#include "gguf/writing/key_section.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
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

}  // namespace vindex::organ
