// Any bytes as a one-file GGUF model: refused by this project's error, or interpreted with every
// matrix inside its tensor and every window of a product inside its matrix. Keys that lie about the
// tensors change no more than warnings.
#include "gguf_case.hpp"
#include "gguf_mutator.hpp"

#include "decode/encoding/code_layout.hpp"
#include "model/index/index_model.hpp"
#include "model/model_index.hpp"
#include "model/products/product.hpp"
#include <vindex/error.hpp>

using namespace vindex;

namespace {

void check_inside(const input::ModelFiles& files, const model::MatrixRecord& matrix) {
  if (!matrix.unsupported.empty()) {
    return;
  }
  const auto& stored = files.tensors.at(static_cast<std::size_t>(matrix.codes.tensor));
  const auto row =
      decode::row_bytes(matrix.encoding, static_cast<std::uint64_t>(matrix.stored_cols()));
  const bool inside = matrix.codes.offset >= stored.offset &&
                      matrix.codes.bytes <= stored.bytes - (matrix.codes.offset - stored.offset);
  if (!inside || !row ||
      *row * static_cast<std::uint64_t>(matrix.stored_rows()) != matrix.codes.bytes) {
    std::abort();
  }
}

void check_product(const input::ModelFiles& files, const model::Product& product) {
  for (const model::ProductFactor& factor : product.factors) {
    const model::MatrixRecord& matrix = *factor.matrix;
    const bool inside = factor.first_row >= 0 && factor.rows > 0 && factor.first_col >= 0 &&
                        factor.cols > 0 && factor.rows <= matrix.rows - factor.first_row &&
                        factor.cols <= matrix.cols - factor.first_col;
    if (!inside) {
      std::abort();
    }
    check_inside(files, matrix);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  for (const model::IndexOptions& options :
       {model::IndexOptions{}, model::IndexOptions{.heads = true},
        model::IndexOptions{.lora = true}}) {
    try {
      const input::ModelFiles files = fuzz::gguf_model(std::span(data, size));
      const model::ModelIndex index = model::index_model(files, options);
      for (const model::MatrixRecord& matrix : index.matrices) {
        if (matrix.product != nullptr) {
          check_product(files, *matrix.product);
        } else {
          check_inside(files, matrix);
        }
      }
    } catch (const FormatError&) {
    } catch (const ConfigurationError&) {  // an adapter's key of a type that it never has
    } catch (const UsageError&) {          // no heads, no pairs
    }
  }
  return 0;
}
