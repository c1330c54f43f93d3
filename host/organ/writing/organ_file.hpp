// Owns what an organ file is: its name, and the keys of the GGUF of one tensor.
#pragma once

#include "composition.hpp"

#include "core/digest.hpp"
#include "core/files/atomic_file.hpp"
#include "gguf/writing/key_section.hpp"
#include "gguf/writing/writer.hpp"
#include "organ/manifest/manifest.hpp"
#include "write/output_folder.hpp"
#include "write/range_copy.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

namespace vindex::organ {

/// `organ.version` and `general.quantization_version` of what is written.
inline constexpr std::uint32_t kOrganVersion = 1;
inline constexpr std::uint32_t kQuantizationVersion = 2;

/// Gives every tensor its path within the folder: "organs/blk_0_ffn_gate.bin" for
/// blk.0.ffn_gate.weight. Dots and what no file name should hold become underscores; names that
/// fall together are distinguished by _2, _3 in the order in which they are asked for.
class OrganNames {
 public:
  std::string path_of(const std::string& tensor, std::string_view suffix);

 private:
  std::unordered_set<std::string> taken_;
};

/// What all organs of a model say of it.
struct OrganOrigin {
  std::string architecture;  ///< general.architecture; empty: unknown
  std::string name;          ///< organ.source.name
  std::string uuid = {};     ///< organ.source.uuid; empty: none
};

/// A file of the model that is taken apart.
struct OriginFile {
  std::string name;           ///< organ.source.file
  std::string header_sha256;  ///< organ.source.header_sha256
  ByteSource* source = nullptr;
};

/// Writes the one tensor, whose offset is that in `from`, and brings it to the device: as GGUF, or
/// as safetensors where its file is named so. The offset is then that in `file`, the digest set.
/// `share_blocks`: a key of padding puts the bytes where blocks can be shared with the source.
/// False: stopped.
bool write_organ(AtomicFile& file, ManifestTensor& tensor, const OrganOrigin& origin,
                 const OriginFile& from, bool share_blocks, write::RangeCopier& copier);

/// The same, as GGUF, of a tensor whose bytes `make` gives, each once and in any order, to a sink
/// that takes an offset within the tensor.
void write_made_organ(AtomicFile& file, ManifestTensor& tensor, const OrganOrigin& origin,
                      const OriginFile& from,
                      const std::function<void(const TensorSink& sink)>& make);

/// Ends the name of an organ that GGUF has no place for.
inline constexpr std::string_view kSafetensorsSuffix = ".safetensors";

/// Names of GGUF tensors have at most this many bytes.
inline constexpr std::size_t kLongestTensorName = 63;

}  // namespace vindex::organ
