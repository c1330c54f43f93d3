// Owns writing a GGUF model, one file or splits, from tensors of many sources: bytes that pass
// through are cloned or copied by the kernel where it can, what is made anew comes from a function.
// Memory is bounded by a few buffers per thread; nothing appears under its name before all of it is
// on the device.
#pragma once

#include "gguf/writing/key_section.hpp"
#include "gguf/writing/writer.hpp"
#include "organ/extract/gguf_source.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

namespace vindex::organ {

/// Takes bytes of a tensor from `offset` within it on; every byte once, in any order.
using TensorSink = std::function<void(std::uint64_t offset, std::span<const std::byte> bytes)>;

/// One tensor of the result. Either `source` is set, whose tensor has as many bytes as the layout,
/// or `make`, which is called once, from any thread, beside those of other tensors.
struct ComposedTensor {
  gguf::TensorLayout layout = {};
  const GgufSource* source = nullptr;
  std::size_t tensor = 0;  ///< of `source`
  std::function<void(const TensorSink& sink)> make = {};
  /// Lower-case hex digest that the bytes must have; empty: they are not digested. Of bytes from a
  /// source only.
  std::string sha256 = {};
};

/// Tensor `tensor` of `source` as it is, with the digest that a manifest gives.
ComposedTensor passed_through(const GgufSource& source, std::size_t tensor);

/// Every tensor of `source` as it is, in its order.
std::vector<ComposedTensor> passed_through(const GgufSource& source);

/// One file of the result: its keys, split keys included, and how many tensors it takes from the
/// list.
struct ComposedFile {
  gguf::KeySection keys;
  std::size_t tensor_count = 0;
  bool bare_end = false;  ///< without tensors: no padding behind the header, as some first splits
};

struct Composition {
  std::vector<ComposedTensor> tensors;  ///< in the result's order
  std::vector<ComposedFile> files;      ///< file after file; one: a single file
};

/// Everything in one file: `keys` must hold no split.* key.
Composition single_file(gguf::KeySection keys, std::vector<ComposedTensor> tensors);

/// Files of at most `shard_bytes` of tensors each (a larger tensor has one to itself), split keys
/// added: split.no and split.count u16, split.tensors.count i32. `keys` (without split keys) stand
/// in the first, the others have the three and general.alignment where `keys` has it. One file
/// where all fits into one or shard_bytes is 0. Errors: UsageError E-SHARDS for more than 65535
/// files.
Composition split_by_size(gguf::KeySection keys, std::vector<ComposedTensor> tensors,
                          std::uint64_t shard_bytes);

/// Whether a key belongs to a file of a set and not to the model: split.no, split.count,
/// split.tensors.count. Composers leave them out of copies.
bool is_split_key(std::string_view name);

struct ComposeOptions {
  bool replace = false;       ///< files of these names may be replaced
  std::int32_t threads = 0;   ///< that copy; 0: by the machine
  std::stop_token stop = {};  ///< requested: nothing is left behind
  /// Paths that must not be written over, beside the files of every source used.
  std::vector<std::string> inputs = {};
};

struct ComposeReport {
  std::vector<std::string> files;  ///< paths written, in order
  std::uint64_t bytes = 0;         ///< of all files
  std::uint64_t cloned = 0;        ///< bytes that share blocks with their source
  std::uint64_t kernel = 0;        ///< bytes that the kernel copied
  std::uint64_t read = 0;          ///< bytes that went through this process
  bool stopped = false;            ///< by ComposeOptions::stop; nothing was written
};

/// Where the files of a composition of `count` files with the target `target` will lie: `target`
/// itself for one; PREFIX-00001-of-0000N.gguf for more, PREFIX being the target without ".gguf" or
/// without such an ending.
std::vector<std::string> composed_paths(const std::string& target, std::size_t count);

/// What E-ORGAN-DIGEST says of a tensor.
inline constexpr const char* kOtherBytes =
    "its bytes are not those that the manifest was written of; `vindex organ assemble "
    "--accept-changed` takes them as they are";

/// Writes `composition`. Errors: OutputError E-OUTPUT-SOURCE where a target is an input,
/// E-OUTPUT-EXISTS without `replace`, E-OUTPUT-*; SystemError E-OUT-SPACE (74); FormatError
/// E-ORGAN-DIGEST naming the tensor and file whose bytes have another digest than `sha256`;
/// SystemError E-INPUT-CHANGED (74) where a source changed meanwhile; those of gguf::Writer.
ComposeReport compose(const Composition& composition, const std::string& target,
                      const ComposeOptions& options = {});

}  // namespace vindex::organ
