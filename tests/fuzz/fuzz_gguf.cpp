// Any bytes as a GGUF file: refused by this project's error, or every tensor lies inside the file,
// its data can be read in pieces as in one, and its rows decode. Mutations change whole fields.
#include "gguf_case.hpp"
#include "gguf_mutator.hpp"

#include "decode/decode_matrix.hpp"
#include "decode/encoding/code_layout.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <cstring>
#include <vector>

using namespace vindex;

namespace {

constexpr std::uint64_t kMaxDecoded = 1U << 16U;

void read_and_decode(const input::ModelFiles& model, const input::StoredTensor& tensor) {
  std::vector<std::byte> whole(static_cast<std::size_t>(tensor.bytes));
  ByteSource& source = *model.shards.front().source;
  source.read(tensor.offset, whole);
  const std::size_t cut = whole.size() / 3;
  std::vector<std::byte> rest(whole.size() - cut);
  source.read(tensor.offset + cut, rest);
  if (!std::equal(rest.begin(), rest.end(), whole.begin() + static_cast<std::ptrdiff_t>(cut))) {
    std::abort();
  }
  const decode::Encoding encoding = decode::plain_encoding(tensor.type);
  const std::int64_t cols = tensor.shape.empty() ? 1 : tensor.shape.back();
  const auto row = decode::row_bytes(encoding, static_cast<std::uint64_t>(cols));
  if (!row || *row == 0 || tensor.bytes % *row != 0) {
    std::abort();  // the reader promises whole rows
  }
  decode::EncodedMatrix matrix;
  matrix.encoding = &encoding;
  matrix.rows = static_cast<std::int64_t>(tensor.bytes / *row);
  matrix.cols = cols;
  matrix.codes = whole.data();
  matrix.row_stride_bytes = static_cast<std::int64_t>(*row);
  std::vector<float> weights(static_cast<std::size_t>(matrix.rows * matrix.cols));
  decode::decode_matrix(matrix, weights.data(), matrix.cols);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const input::ModelFiles model = fuzz::gguf_model(std::span(data, size));
    for (const input::StoredTensor& tensor : model.tensors) {
      if (tensor.bytes > 0 && tensor.bytes <= kMaxDecoded) {
        read_and_decode(model, tensor);
      }
    }
  } catch (const FormatError&) {
  }
  return 0;
}
