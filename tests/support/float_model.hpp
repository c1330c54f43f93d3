// Owns small float32 models on disk for tests: the same tensors as one safetensors or one GGUF
// file.
#pragma once

#include "gguf_builder.hpp"

#include <bit>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace vindex::testing {

struct FloatTensor {
  std::string name;
  std::vector<std::int64_t> shape;  ///< outermost first
  std::vector<float> values;
};

/// Normals of variance 1/64 in that shape, the same for the same seed.
inline FloatTensor noise_tensor(const std::string& name, const std::vector<std::int64_t>& shape,
                                unsigned seed) {
  FloatTensor tensor{name, shape, {}};
  std::int64_t count = 1;
  for (const std::int64_t side : shape) {
    count *= side;
  }
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0.0F, 0.125F);
  tensor.values.resize(static_cast<std::size_t>(count));
  for (float& value : tensor.values) {
    value = normal(random);
  }
  return tensor;
}

inline void write_safetensors(const std::string& path, const std::vector<FloatTensor>& tensors) {
  std::string header = "{";
  std::string data;
  for (const FloatTensor& tensor : tensors) {
    header += header.size() == 1 ? "\"" : ",\"";
    header += tensor.name + R"(":{"dtype":"F32","shape":[)";
    for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
      header += (i == 0 ? "" : ",") + std::to_string(tensor.shape[i]);
    }
    header += "],\"data_offsets\":[" + std::to_string(data.size()) + ",";
    data.append(reinterpret_cast<const char*>(tensor.values.data()),
                tensor.values.size() * sizeof(float));
    header += std::to_string(data.size()) + "]}";
  }
  header += "}";
  std::ofstream(path, std::ios::binary)
      << little_endian(std::uint64_t{header.size()}) << header << data;
}

/// `keys` adds what the file says beside its tensors.
inline void write_gguf(const std::string& path, const std::vector<FloatTensor>& tensors,
                       const std::function<void(GgufBuilder&)>& keys) {
  GgufBuilder builder;
  keys(builder);
  for (const FloatTensor& tensor : tensors) {
    builder.tensor(tensor.name,
                   std::vector<std::uint64_t>(tensor.shape.rbegin(), tensor.shape.rend()), 0,
                   builder.data.size());
    builder.data.append(reinterpret_cast<const char*>(tensor.values.data()),
                        tensor.values.size() * sizeof(float));
    builder.data.resize((builder.data.size() + 31) / 32 * 32, '\0');
  }
  std::ofstream(path, std::ios::binary) << builder.bytes();
}

}  // namespace vindex::testing
