// Any bytes as a one-file GGUF model: refused by this project's error, or interpreted with every
// matrix inside its tensor. Keys that lie about the tensors change no more than warnings.
#include "gguf_case.hpp"
#include "gguf_mutator.hpp"

#include <vindex/core/error.hpp>
#include <vindex/decode/encoding.hpp>
#include <vindex/model/model_index.hpp>

using namespace vindex;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const shard::ModelFiles files = fuzz::gguf_model(std::span(data, size));
    const model::ModelIndex index = model::index_model(files);
    for (const model::MatrixRecord& matrix : index.matrices) {
      const auto& stored = files.tensors.at(static_cast<std::size_t>(matrix.codes.tensor));
      if (!matrix.unsupported.empty()) {
        continue;
      }
      const auto row =
          decode::row_bytes(matrix.encoding, static_cast<std::uint64_t>(matrix.stored_cols()));
      const bool inside =
          matrix.codes.offset >= stored.offset &&
          matrix.codes.bytes <= stored.bytes - (matrix.codes.offset - stored.offset);
      if (!inside || !row ||
          *row * static_cast<std::uint64_t>(matrix.stored_rows()) != matrix.codes.bytes) {
        std::abort();
      }
    }
  } catch (const FormatError&) {
  }
  return 0;
}
