// Owns comparing an adapter's whole tensors with the model's.
#include "whole_tensors.hpp"

#include <vindex/decode/decode_matrix.hpp>
#include <vindex/model/adapter_names.hpp>
#include <vindex/run/matrix_loader.hpp>
#include <vindex/run/source_watch.hpp>

#include <algorithm>
#include <map>

namespace vindex::edit {
namespace {

using model::MatrixRecord;

constexpr std::int64_t kSlabWeights = std::int64_t{1} << 20U;

const MatrixRecord* matrix_called(const model::ModelIndex& index, const std::string& name) {
  const auto found =
      std::find_if(index.matrices.begin(), index.matrices.end(), [&](const MatrixRecord& matrix) {
        return matrix.table == model::ResultTable::kMatrix && matrix.slice < 0 &&
               matrix.tensor == name;
      });
  return found == index.matrices.end() ? nullptr : &*found;
}

/// The one matrix of `block` outside the layers.
const MatrixRecord* matrix_of(const model::ModelIndex& index, model::Block block) {
  const auto found =
      std::find_if(index.matrices.begin(), index.matrices.end(), [&](const MatrixRecord& matrix) {
        return matrix.table == model::ResultTable::kMatrix && matrix.slice < 0 &&
               matrix.layer < 0 && matrix.block == block;
      });
  return found == index.matrices.end() ? nullptr : &*found;
}

bool same_sides(const MatrixRecord& a, const MatrixRecord& b) {
  return a.rows == b.rows && a.cols == b.cols && a.transposed == b.transposed &&
         a.unsupported.empty() && b.unsupported.empty();
}

bool same_values(run::SourceWatch& watch_a, const MatrixRecord& a, run::SourceWatch& watch_b,
                 const MatrixRecord& b) {
  const auto input_a = run::make_streamed_input(watch_a, a);
  const auto input_b = run::make_streamed_input(watch_b, b);
  const std::int64_t cols = a.stored_cols();
  const std::int64_t unit = std::max<std::int64_t>(
      1, std::max<std::int64_t>(a.encoding.block_rows, b.encoding.block_rows));
  const std::int64_t step = std::max(unit, kSlabWeights / cols / unit * unit);
  std::vector<float> values_a, values_b;
  for (std::int64_t row = 0; row < a.stored_rows(); row += step) {
    const std::int64_t count = std::min(step, a.stored_rows() - row);
    values_a.resize(static_cast<std::size_t>(count * cols));
    values_b.resize(values_a.size());
    decode::decode_matrix(input_a->row_slab(row, count), values_a.data(), cols);
    decode::decode_matrix(input_b->row_slab(row, count), values_b.data(), cols);
    if (values_a != values_b) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::vector<WholeTensor> whole_tensors(const shard::ModelFiles& files,
                                       const model::ModelIndex& index, const PatchBase* base) {
  std::vector<WholeTensor> whole;
  for (const shard::StoredTensor& tensor : files.tensors) {
    if (tensor.name.find(".lora_") != std::string::npos && !tensor.name.ends_with(".bias")) {
      continue;
    }
    WholeTensor& found = whole.emplace_back(WholeTensor{.name = tensor.name});
    found.held = base == nullptr ? nullptr : matrix_called(index, tensor.name);
    if (found.held == nullptr) {
      continue;
    }
    found.wanted = matrix_called(base->index, model::base_tensor_name(tensor.name));
    if (found.wanted == nullptr && found.held->block == model::Block::kOutput &&
        matrix_of(base->index, model::Block::kOutput) == nullptr) {
      found.wanted = matrix_of(base->index, model::Block::kEmbedding);
    }
    if (found.wanted != nullptr && !same_sides(*found.held, *found.wanted)) {
      found.wanted = nullptr;
    }
  }
  return whole;
}

bool is_copy(const shard::ModelFiles& files, const WholeTensor& tensor, const PatchBase& base) {
  run::SourceWatch adapter(files);
  run::SourceWatch model(base.files);
  const bool copy = same_values(adapter, *tensor.held, model, *tensor.wanted);
  adapter.require_unchanged();
  model.require_unchanged();
  return copy;
}

}  // namespace vindex::edit
