// Owns models made in memory for the tests of this layer: stored tensors with consistent offsets,
// a configuration as text, keys; no bytes unless a test gives them.
#pragma once

#include "core/integers.hpp"
#include "input/local/file_source.hpp"
#include "model/index/index_model.hpp"
#include "model/model_index.hpp"
#include <vindex/error.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace vindex::model {

class ModelFixture {
 public:
  explicit ModelFixture(input::ContainerFormat format = input::ContainerFormat::kSafetensors) {
    files_.format = format;
    files_.path = "model";
    add_shard("model-00001-of-00002.safetensors");
  }

  static ModelFixture gguf(const std::string& architecture) {
    ModelFixture fixture(input::ContainerFormat::kGguf);
    fixture.files_.shards[0].file_name = "model.gguf";
    fixture.text_key("general.architecture", architecture);
    return fixture;
  }

  void add_shard(const std::string& name) {
    input::Shard shard;
    shard.file_name = name;
    shard.path = name;
    files_.shards.push_back(std::move(shard));
    next_offset_ = 1000;
  }

  /// Appends a tensor to the last shard; returns its index.
  std::int32_t add(const std::string& name, decode::ElementType type,
                   std::vector<std::int64_t> shape) {
    input::StoredTensor tensor;
    tensor.name = name;
    tensor.type = type;
    tensor.shape = std::move(shape);
    tensor.shard = static_cast<std::int32_t>(files_.shards.size()) - 1;
    tensor.offset = next_offset_;
    std::uint64_t count = 1;
    for (const std::int64_t side : tensor.shape) {
      count *= static_cast<std::uint64_t>(side);
    }
    tensor.bytes = decode::stored_bytes(type, count).value();
    next_offset_ += tensor.bytes;
    files_.tensors.push_back(std::move(tensor));
    return static_cast<std::int32_t>(files_.tensors.size()) - 1;
  }
  std::int32_t bf16(const std::string& name, std::vector<std::int64_t> shape) {
    return add(name, decode::ElementType::kBF16, std::move(shape));
  }

  /// Sets member `path` ("text_config.hidden_size") of config.json.
  void config(const std::string& path, JsonValue::Storage value) {
    if (!files_.config) {
      files_.config = JsonValue(JsonValue::Object{});
    }
    set(*files_.config, path, JsonValue(std::move(value)));
  }
  void config(const std::string& path, std::uint64_t value) {
    config(path, JsonValue::Storage(value));
  }
  void config(const std::string& path, const char* value) {
    config(path, JsonValue::Storage(std::string(value)));
  }
  void block_size(std::uint64_t rows, std::uint64_t cols) {
    JsonValue::Array sides;
    sides.emplace_back(JsonValue::Storage(rows));
    sides.emplace_back(JsonValue::Storage(cols));
    config("quantization_config.quant_method", "fp8");
    config("quantization_config.weight_block_size", JsonValue::Storage(std::move(sides)));
  }

  void text_key(const std::string& name, const std::string& value) {
    gguf::Key key;
    key.name = name;
    key.type = gguf::ValueType::kString;
    key.value = value;
    files_.keys.push_back(std::move(key));
  }
  void number_key(const std::string& name, std::uint64_t value) {
    gguf::Key key;
    key.name = name;
    key.type = gguf::ValueType::kU32;
    key.value = value;
    files_.keys.push_back(std::move(key));
  }
  void real_key(const std::string& name, double value) {
    gguf::Key key;
    key.name = name;
    key.type = gguf::ValueType::kF32;
    key.value = value;
    files_.keys.push_back(std::move(key));
  }

  /// Gives shard 0 a source of these bytes, from offset 0.
  void bytes(std::vector<std::byte> bytes) {
    bytes_ = std::move(bytes);
    files_.shards[0].source = input::make_memory_source("memory", bytes_);
  }

  input::ModelFiles& files() { return files_; }
  ModelIndex index(const IndexOptions& options = {}) const { return index_model(files_, options); }

 private:
  static void set(JsonValue& object, const std::string& path, JsonValue value) {
    const std::size_t dot = path.find('.');
    JsonValue::Object members = *object.as_object();
    const std::string key = path.substr(0, dot);
    auto member = std::find_if(members.begin(), members.end(),
                               [&](const auto& pair) { return pair.first == key; });
    if (member == members.end()) {
      members.emplace_back(key, JsonValue(JsonValue::Object{}));
      member = members.end() - 1;
    }
    if (dot == std::string::npos) {
      member->second = std::move(value);
    } else {
      set(member->second, path.substr(dot + 1), std::move(value));
    }
    object = JsonValue(std::move(members));
  }

  input::ModelFiles files_;
  std::vector<std::byte> bytes_;
  std::uint64_t next_offset_ = 1000;
};

/// One matrix as "layer/block/role/expert/slice rows x cols [T]".
inline std::string describe(const MatrixRecord& matrix) {
  return std::to_string(matrix.layer) + "/" + std::string(block_name(matrix.block)) + "/" +
         matrix.role + "/" + std::to_string(matrix.expert) + "/" + std::to_string(matrix.slice) +
         " " + std::to_string(matrix.rows) + "x" + std::to_string(matrix.cols) +
         (matrix.transposed ? " T" : "");
}

/// All matrices of a tensor, described.
inline std::vector<std::string> describe(const ModelIndex& index, const std::string& tensor) {
  std::vector<std::string> out;
  for (const MatrixRecord& matrix : index.matrices) {
    if (matrix.tensor == tensor) {
      out.push_back(describe(matrix));
    }
  }
  return out;
}

inline std::string only(const ModelIndex& index, const std::string& tensor) {
  const std::vector<std::string> all = describe(index, tensor);
  return all.size() == 1 ? all[0] : std::to_string(all.size()) + " matrices of " + tensor;
}

inline const MatrixRecord* find_matrix(const ModelIndex& index, const std::string& tensor,
                                       std::int32_t slice = -1) {
  for (const MatrixRecord& matrix : index.matrices) {
    if (matrix.tensor == tensor && matrix.slice == slice) {
      return &matrix;
    }
  }
  return nullptr;
}

inline const TensorRecord* find_tensor(const ModelIndex& index, const std::string& name) {
  for (const TensorRecord& tensor : index.tensors) {
    if (tensor.name == name) {
      return &tensor;
    }
  }
  return nullptr;
}

inline std::vector<std::string> warning_ids(const ModelIndex& index) {
  std::vector<std::string> ids;
  for (const Warning& warning : index.warnings) {
    ids.push_back(warning.id);
  }
  return ids;
}

}  // namespace vindex::model
