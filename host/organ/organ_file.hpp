// Owns what an organ file is: its name, and the keys of the GGUF of one tensor.
#pragma once

#include "organ_class.hpp"

#include "core/atomic_file.hpp"
#include "core/digest.hpp"
#include "gguf/key_section.hpp"
#include "gguf/writer.hpp"
#include "write/output_folder.hpp"
#include "write/range_copy.hpp"

#include <cstdint>
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
  std::string path_of(const std::string& tensor, const char* suffix);

 private:
  std::unordered_set<std::string> taken_;
};

/// What all organs of a model say of it.
struct OrganOrigin {
  std::string architecture;   ///< general.architecture; empty: unknown
  std::string name;           ///< organ.source.name
  std::string uuid;           ///< organ.source.uuid; empty: none
  std::string file;           ///< organ.source.file
  std::string header_sha256;  ///< organ.source.header_sha256
  std::vector<std::string> history;
};

/// A tensor's bytes on their way into an organ file.
struct OrganBytes {
  ByteSource* source = nullptr;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

struct WrittenOrgan {
  std::uint64_t offset = 0;  ///< of the tensor's bytes in the file
  std::string sha256;
};

/// Writes the GGUF of one tensor and brings it to the device. `share_blocks`: a key of padding puts
/// the bytes where blocks can be shared with the source. Nothing: stopped.
std::optional<WrittenOrgan> write_organ(AtomicFile& file, const gguf::TensorLayout& layout,
                                        const OrganBytes& from, const OrganOrigin& origin,
                                        bool share_blocks, write::RangeCopier& copier);

/// Names of GGUF tensors have at most this many bytes.
inline constexpr std::size_t kLongestTensorName = 63;

}  // namespace vindex::organ
