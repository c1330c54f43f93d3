// Owns a GGUF model opened for surgery: its keys, its tensors in the model's own order, and where
// the bytes of each lie. One file, the splits of a set, or a folder that `vindex organ extract`
// made (manifest.json), which reads as the model it was taken from, whether its bytes lie in organ
// files or still in the source.
#pragma once

#include "decode/encoding/element_type.hpp"
#include "gguf/header.hpp"
#include "gguf/writing/key_section.hpp"
#include "gguf/writing/writer.hpp"
#include "input/model_files.hpp"
#include <vindex/error.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace vindex::organ {

/// Its offset is that in files()[file].
struct OrganTensor : gguf::Tensor {
  std::size_t split = 0;  ///< of the model, which it belongs to
  std::size_t file = 0;   ///< index into files(): where its bytes lie
  /// As a manifest says, lower-case hex; empty where none does. A caller that passes the bytes on
  /// gives it to the ComposedTensor, so that an organ that was changed is noticed.
  std::string sha256 = {};
};

/// The keys of one split (of a single file: its keys).
struct GgufSplit {
  std::string file_name;         ///< without folder
  std::string path;              ///< empty where only a manifest knows of it
  bool bare_end = false;         ///< no tensors, and no padding behind the header
  gguf::Header header;           ///< its tensors are moved out: see tensors()
  ByteSource* source = nullptr;  ///< of the keys' values
};

struct GgufParts {
  std::string path;
  std::vector<input::Shard> files;                       ///< that bytes lie in
  std::vector<std::unique_ptr<ByteSource>> key_sources;  ///< of splits that lie in no file
  std::vector<std::unique_ptr<std::string>> key_bytes;   ///< what those read
  std::vector<std::string> side_files;  ///< read besides: a manifest, the keys beside it
  std::vector<GgufSplit> splits;
  std::vector<OrganTensor> tensors;
  std::vector<Warning> warnings;
  bool from_manifest = false;
  bool changed = false;             ///< something was accepted that is not as the manifest says
  std::uint64_t tensors_total = 0;  ///< of the model; more than `tensors` of a selection
};

/// Immutable and thread-safe. Must outlive every Composition that takes from it.
class GgufSource {
 public:
  /// Errors: FormatError E-TENSOR-TWICE for two tensors of one name.
  explicit GgufSource(GgufParts parts);

  /// As the user gave it.
  const std::string& path() const { return parts_.path; }
  const std::vector<input::Shard>& files() const { return parts_.files; }
  const std::vector<GgufSplit>& splits() const { return parts_.splits; }
  const std::vector<OrganTensor>& tensors() const { return parts_.tensors; }
  const std::vector<Warning>& warnings() const { return parts_.warnings; }
  bool from_manifest() const { return parts_.from_manifest; }
  bool changed() const { return parts_.changed; }
  std::uint64_t tensors_total() const { return parts_.tensors_total; }

  /// The model's keys: those of the first split.
  const std::vector<gguf::Key>& keys() const { return splits().front().header.keys; }
  const gguf::Key* key(std::string_view name) const { return find_key(keys(), name); }
  /// Texts and numbers of the model's keys; nothing where absent or of another kind.
  std::optional<std::string> text(std::string_view name) const;
  std::optional<std::uint64_t> number(std::string_view name) const;
  /// general.architecture; empty where there is none.
  std::string architecture() const;
  /// ARCHITECTURE.block_count; without it one more than the highest block of a tensor.
  std::uint64_t block_count() const;

  std::optional<std::size_t> find(std::string_view tensor) const;
  /// Bytes of a tensor from `offset` within it, little-endian. Errors: those of ByteSource::read().
  void read(const OrganTensor& tensor, std::uint64_t offset, std::span<std::byte> into) const;
  /// The source of files()[file] for who bypasses ByteSource::read(): its descriptor stays open as
  /// long as what is returned lives, which may be long only for few of the files. Thread-safe.
  std::shared_ptr<ByteSource> opened(std::size_t file) const;
  /// Every file that was read or will be, for who writes: none may be written over.
  std::vector<std::string> input_paths() const;

  /// A typed, verbatim copy of split `split`'s keys, in order, of those that `wanted` (all without
  /// it) takes. Long values are read when the result is written: this must live until then.
  gguf::KeySection copy_keys(std::size_t split = 0,
                             const std::function<bool(const gguf::Key&)>& wanted = {}) const;

  /// Errors: SystemError E-INPUT-CHANGED (74) where a file is not what it was at opening.
  void require_unchanged() const;

 private:
  GgufParts parts_;
  std::unordered_map<std::string_view, std::size_t> places_;
};

}  // namespace vindex::organ
