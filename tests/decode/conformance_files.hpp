// Owns the reading of conformance files: just enough of GGUF and safetensors to find one tensor's
// bytes. The readers of the input layer are tested elsewhere; these stay apart so that a fault
// there cannot hide one here.
#pragma once
#include "decode/encoding/code_layout.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

namespace vindex::decode::testing {

inline std::filesystem::path shared_data() { return VINDEX_SHARED_DATA; }

inline std::vector<std::byte> read_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

inline std::vector<float> read_floats(const std::filesystem::path& path) {
  const std::vector<std::byte> bytes = read_bytes(path);
  std::vector<float> floats(bytes.size() / sizeof(float));
  std::memcpy(floats.data(), bytes.data(), floats.size() * sizeof(float));
  return floats;
}

struct FileTensor {
  ElementType type = ElementType::kF32;
  std::vector<std::int64_t> shape;  // outermost first
  std::span<const std::byte> bytes;
  std::int64_t cols() const { return shape.empty() ? 1 : shape.back(); }
  std::int64_t rows() const {
    std::int64_t count = 1;
    for (std::size_t i = 0; i + 1 < shape.size(); ++i) {
      count *= shape[i];
    }
    return count;
  }
};

struct TensorFile {
  std::vector<std::byte> bytes;
  std::map<std::string, FileTensor> tensors;
};

class GgufCursor {
 public:
  explicit GgufCursor(std::span<const std::byte> bytes) : bytes_(bytes) {}
  template <typename T>
  T take() {
    T value;
    std::memcpy(&value, bytes_.subspan(at_, sizeof(T)).data(), sizeof(T));
    at_ += sizeof(T);
    return value;
  }
  std::string take_string() {
    const auto length = static_cast<std::size_t>(take<std::uint64_t>());
    std::string text(length, '\0');
    std::memcpy(text.data(), bytes_.subspan(at_, length).data(), length);
    at_ += length;
    return text;
  }
  void skip_value(std::uint32_t type) {
    constexpr std::size_t kWidths[13] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    if (type == 8) {
      take_string();
    } else if (type == 9) {
      const auto element = take<std::uint32_t>();
      const auto count = take<std::uint64_t>();
      for (std::uint64_t i = 0; i < count; ++i) {
        skip_value(element);
      }
    } else {
      at_ += kWidths[type];
    }
  }
  std::size_t position() const { return at_; }

 private:
  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
};

/// Version 2 or 3, default alignment.
inline TensorFile read_gguf(const std::filesystem::path& path) {
  TensorFile file;
  file.bytes = read_bytes(path);
  GgufCursor cursor(file.bytes);
  cursor.take<std::uint32_t>();
  cursor.take<std::uint32_t>();
  const auto tensors = cursor.take<std::uint64_t>();
  const auto keys = cursor.take<std::uint64_t>();
  for (std::uint64_t i = 0; i < keys; ++i) {
    cursor.take_string();
    cursor.skip_value(cursor.take<std::uint32_t>());
  }
  std::vector<std::pair<std::string, std::uint64_t>> offsets;
  for (std::uint64_t i = 0; i < tensors; ++i) {
    const std::string name = cursor.take_string();
    FileTensor tensor;
    const auto dimensions = cursor.take<std::uint32_t>();
    for (std::uint32_t d = 0; d < dimensions; ++d) {
      tensor.shape.insert(tensor.shape.begin(),
                          static_cast<std::int64_t>(cursor.take<std::uint64_t>()));
    }
    tensor.type = element_type_of_ggml(cursor.take<std::uint32_t>()).value();
    offsets.emplace_back(name, cursor.take<std::uint64_t>());
    file.tensors[name] = tensor;
  }
  const std::size_t data = (cursor.position() + 31) / 32 * 32;
  for (const auto& [name, offset] : offsets) {
    FileTensor& tensor = file.tensors[name];
    const auto elements = static_cast<std::uint64_t>(tensor.rows() * tensor.cols());
    tensor.bytes = std::span<const std::byte>(file.bytes)
                       .subspan(data + offset, stored_bytes(tensor.type, elements).value());
  }
  return file;
}

inline TensorFile read_safetensors(const std::filesystem::path& path) {
  TensorFile file;
  file.bytes = read_bytes(path);
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, file.bytes.data(), sizeof header_bytes);
  const auto* text = reinterpret_cast<const char*>(file.bytes.data()) + 8;
  const auto header = nlohmann::json::parse(text, text + header_bytes);
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") {
      continue;
    }
    FileTensor tensor;
    tensor.type = element_type_of_safetensors(entry["dtype"].get<std::string>()).value();
    tensor.shape = entry["shape"].get<std::vector<std::int64_t>>();
    const auto begin = entry["data_offsets"][0].get<std::uint64_t>();
    const auto end = entry["data_offsets"][1].get<std::uint64_t>();
    tensor.bytes =
        std::span<const std::byte>(file.bytes).subspan(8 + header_bytes + begin, end - begin);
    file.tensors[name] = tensor;
  }
  return file;
}

/// `tensor` as a matrix of `cols` logical columns, whole.
inline EncodedMatrix matrix_of(const Encoding& encoding, const FileTensor& tensor,
                               std::int64_t cols) {
  EncodedMatrix matrix;
  matrix.encoding = &encoding;
  matrix.rows = tensor.rows();
  matrix.cols = cols;
  matrix.codes = tensor.bytes.data();
  matrix.row_stride_bytes =
      static_cast<std::int64_t>(row_bytes(encoding, static_cast<std::uint64_t>(cols)).value());
  return matrix;
}

inline void add_scales(EncodedMatrix& matrix, const FileTensor& scales) {
  Companion& companion = matrix.companions[static_cast<std::size_t>(matrix.companion_count++)];
  companion.role = CompanionRole::kScale;
  companion.type = scales.type;
  companion.rows = scales.rows();
  companion.cols = scales.cols();
  companion.bytes = scales.bytes;
}

}  // namespace vindex::decode::testing
