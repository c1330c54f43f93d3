// Owns one side of a comparison: a model of whatever container, as tensors in places and, of GGUF,
// keys.
#pragma once

#include <vindex/organ/gguf_source.hpp>
#include <vindex/organ/model_difference.hpp>
#include <vindex/organ/tensor_pair.hpp>
#include <vindex/shard/model_files.hpp>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace vindex::organ {

class OpenedSide {
 public:
  /// A GGUF file, a folder of splits or of organs, or a safetensors model.
  explicit OpenedSide(const std::string& path);

  const std::vector<PlacedTensor>& tensors() const { return tensors_; }
  /// Without split.*; none of a safetensors model.
  const std::vector<const shard::GgufKey*>& keys() const { return keys_; }
  GgufValue value(const shard::GgufKey& key) const;
  DiffSide summary() const;
  /// Errors: SystemError E-INPUT-CHANGED (74).
  void require_unchanged() const;

 private:
  void take_gguf();
  void take_safetensors();

  std::string path_;
  std::unique_ptr<GgufSource> gguf_;
  std::optional<shard::ModelFiles> files_;
  std::vector<PlacedTensor> tensors_;
  std::vector<const shard::GgufKey*> keys_;
};

}  // namespace vindex::organ
