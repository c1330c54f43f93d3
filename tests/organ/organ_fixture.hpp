// Owns making GGUF files of tests: drawn ones, and small models that a loader would take.
#pragma once

#include "tests/support/gguf_builder.hpp"

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace vindex::organ {

/// A canonical file of `builder`'s alignment: tensors follow one another, padded.
class Canonical {
 public:
  explicit Canonical(std::uint64_t alignment = 32) {
    builder.alignment = alignment;
    if (alignment != 32) {
      builder.key_u32("general.alignment", static_cast<std::uint32_t>(alignment));
    }
  }
  void tensor(const std::string& name, const std::vector<std::uint64_t>& dimensions,
              std::uint32_t type, const std::string& bytes) {
    builder.tensor(name, dimensions, type, builder.data.size());
    builder.data += bytes;
    builder.data.resize(
        (builder.data.size() + builder.alignment - 1) / builder.alignment * builder.alignment,
        '\0');
  }
  /// float32 of `value`s.
  void floats(const std::string& name, const std::vector<std::uint64_t>& dimensions, float value) {
    std::uint64_t count = 1;
    for (const std::uint64_t dimension : dimensions) {
      count *= dimension;
    }
    std::string bytes;
    for (std::uint64_t i = 0; i < count; ++i) {
      bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
    }
    tensor(name, dimensions, 0, bytes);
  }
  std::string bytes() const { return builder.bytes(); }

  testing::GgufBuilder builder;
};

/// A llama of `blocks` blocks whose weights are all `value` (+ the block's number).
inline Canonical small_llama(std::uint32_t blocks, float value, bool with_arrays = false) {
  Canonical model;
  model.builder.key_string("general.architecture", "llama");
  model.builder.key_string("general.name", "small " + std::to_string(static_cast<int>(value)));
  model.builder.key_u32("llama.block_count", blocks).key_u32("llama.embedding_length", 8);
  model.builder.key("llama.attention.layer_norm_rms_epsilon", 6,
                    testing::little_endian(0x3727C5ACU));
  if (with_arrays) {
    std::string heads;
    for (std::uint32_t b = 0; b < blocks; ++b) {
      heads += testing::little_endian(100 * static_cast<std::uint32_t>(value) + b);
    }
    model.builder.key_array("llama.attention.head_count_kv", 5, blocks, heads);
  }
  model.floats("token_embd.weight", {8, 4}, value);
  for (std::uint32_t b = 0; b < blocks; ++b) {
    const std::string prefix = "blk." + std::to_string(b) + ".";
    const float own = value + static_cast<float>(b);
    for (const char* name : {"attn_norm", "ffn_norm"}) {
      model.floats(prefix + name + ".weight", {8}, own);
    }
    for (const char* name :
         {"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"}) {
      model.floats(prefix + name + ".weight", {8, 8}, own);
    }
  }
  model.floats("output_norm.weight", {8}, value);
  return model;
}

}  // namespace vindex::organ
