// Owns small safetensors models on disk for tests: tensors with their bytes, a configuration, and
// what `vindex decode` makes of them.
#pragma once

#include "commands/decode/decode_tensor.hpp"
#include "decode/encoding/element_type.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/file_content.hpp"
#include "tests/support/temporary_folder.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace vindex::commands::testing {

using Bytes = std::vector<std::uint8_t>;

template <typename T>
Bytes bytes_of(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

struct TestTensor {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  Bytes bytes;
};

inline std::vector<float> read_floats(const std::string& path) {
  const std::string text = vindex::testing::file_text(path);
  std::vector<float> values(text.size() / sizeof(float));
  std::memcpy(values.data(), text.data(), values.size() * sizeof(float));
  return values;
}

/// Bits, so that -0 and the payload of a NaN count.
inline ::testing::AssertionResult same_bits(const std::vector<float>& got,
                                            const std::vector<float>& wanted) {
  if (got.size() != wanted.size()) {
    return ::testing::AssertionFailure() << got.size() << " weights, wanted " << wanted.size();
  }
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::bit_cast<std::uint32_t>(got[i]) != std::bit_cast<std::uint32_t>(wanted[i])) {
      return ::testing::AssertionFailure()
             << "weight " << i << " is " << got[i] << ", wanted " << wanted[i];
    }
  }
  return ::testing::AssertionSuccess();
}

class ModelFolder {
 public:
  explicit ModelFolder(const std::vector<TestTensor>& tensors, const std::string& config = "{}") {
    std::string header = "{";
    std::string data;
    for (const TestTensor& tensor : tensors) {
      header += header.size() == 1 ? "\"" : ",\"";
      header += tensor.name + "\":{\"dtype\":\"" + tensor.dtype + "\",\"shape\":[";
      for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
        header += (i == 0 ? "" : ",") + std::to_string(tensor.shape[i]);
      }
      header += "],\"data_offsets\":[" + std::to_string(data.size()) + ",";
      data.append(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
      header += std::to_string(data.size()) + "]}";
    }
    header += "}";
    const std::uint64_t length = header.size();
    std::ofstream model(folder_ / "model.safetensors", std::ios::binary);
    model.write(reinterpret_cast<const char*>(&length), 8);
    model << header << data;
    std::ofstream(folder_ / "config.json") << config;
  }

  std::string path() const { return folder_.path(); }

  std::vector<float> decoded(const std::string& name) const {
    const std::string out = folder_ / "out.f32";
    decode_tensor(path(), "", name, std::nullopt, out, true);
    return read_floats(out);
  }

  /// The message of the refusal to decode `name`; "none" where there is none.
  std::string refusal(const std::string& name) const {
    return vindex::testing::message_of([&] { decoded(name); });
  }

 private:
  vindex::testing::TemporaryFolder folder_;
};

}  // namespace vindex::commands::testing
