// Owns what a GGUF model is to be made of: tensors of many sources or made anew, in one file or in
// splits.
#pragma once

#include "gguf/writing/key_section.hpp"
#include "gguf/writing/writer.hpp"
#include "organ/source/gguf_source.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
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

}  // namespace vindex::organ
