// Owns small models of features on disk: the tensors of feed-forwards in any type, as one folder.
#pragma once

#include "tests/support/safetensors_builder.hpp"
#include "tests/support/temporary_folder.hpp"

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace vindex::testing {

/// A tensor of two sides and its bytes, in the type that safetensors calls `dtype`.
struct TypedTensor {
  std::string name, dtype;
  std::int64_t rows = 0, cols = 0;
  std::string bytes;
};

inline TypedTensor float_tensor(const std::string& name, std::int64_t rows, std::int64_t cols,
                                const std::vector<float>& values) {
  TypedTensor tensor{name, "F32", rows, cols, std::string(values.size() * sizeof(float), '\0')};
  std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
  return tensor;
}

/// Zeros.
inline TypedTensor empty_tensor(const std::string& name, const std::string& dtype,
                                std::int64_t rows, std::int64_t cols) {
  const std::int64_t bytes = dtype == "F64" ? 8 : dtype == "F32" ? 4 : 2;
  return {name, dtype, rows, cols, std::string(static_cast<std::size_t>(rows * cols * bytes), 0)};
}

/// A llama of `tensors` in FOLDER/NAME; its path.
inline std::string write_feature_model(const TemporaryFolder& folder, const std::string& name,
                                       const std::vector<TypedTensor>& tensors) {
  std::string entries, data;
  for (const TypedTensor& tensor : tensors) {
    const std::string shape = std::to_string(tensor.rows) + "," + std::to_string(tensor.cols);
    const std::string begin = std::to_string(data.size());
    data += tensor.bytes;
    entries +=
        (entries.empty() ? "" : ",") + safetensors_entry(tensor.name, tensor.dtype, shape,
                                                         begin + "," + std::to_string(data.size()));
  }
  folder.write(name + "/model.safetensors", safetensors_file(braces(entries), 0) + data);
  folder.write(name + "/config.json", R"({"model_type":"llama","num_hidden_layers":4})");
  return folder.file(name);
}

inline std::string mlp_name(int layer, const std::string& role) {
  return "model.layers." + std::to_string(layer) + ".mlp." + role + ".weight";
}

}  // namespace vindex::testing
