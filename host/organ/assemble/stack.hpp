// Owns stacking blocks of several models of one architecture: which block of which model each block
// of the result is, and what of the host's keys changes with it.
#pragma once

#include "recipe.hpp"

#include "gguf/writing/key_section.hpp"
#include "organ/source/gguf_source.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace vindex::organ {

struct StackBlock {
  const GgufSource* model = nullptr;
  std::int32_t block = 0;
};

class Stack {
 public:
  /// Errors: ConfigurationError (78) E-RECIPE-LAYERS for blocks that a model does not have,
  /// next-token blocks that would not be the last, dense blocks behind routed ones where the
  /// architecture counts the leading ones; E-RECIPE-KEYS where models differ in what all blocks
  /// share.
  Stack(const Recipe& recipe, const std::vector<std::unique_ptr<GgufSource>>& models);

  const std::vector<StackBlock>& blocks() const { return blocks_; }
  /// For changed_keys(): counts of blocks, and every array with one element per block.
  bool edit(const gguf::Key& key, gguf::KeySection& keys) const;
  /// What a reader should know.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  void require_same_keys(const GgufSource& donor) const;
  void count_special_blocks();
  bool is_layer_array(const gguf::Key& key) const;
  std::vector<std::byte> reindexed(const gguf::Key& key) const;

  const GgufSource& host_;
  std::string prefix_;  ///< "llama."
  std::vector<StackBlock> blocks_;
  std::uint64_t leading_dense_ = 0;
  std::uint64_t next_token_ = 0;
  std::vector<std::string> notes_;
};

}  // namespace vindex::organ
