// Any bytes as an importance matrix in either format: refused by this project's error, or every
// entry lies inside the file, holds what it says and weighs the matrices of a small model.
#include "model/importance/importance_matrix.hpp"
#include "model/index/index_model.hpp"
#include <vindex/error.hpp>

#include <cmath>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <span>

using namespace vindex;

namespace {

void demand(bool condition) {
  if (!condition) {
    std::abort();
  }
}

/// The model that the seeds are of: a matrix, and a stack of two.
const model::ModelIndex& small_model() {
  static const model::ModelIndex index = [] {
    input::ModelFiles files;
    files.format = input::ContainerFormat::kGguf;
    files.path = "fuzz.gguf";
    files.shards.emplace_back().file_name = files.path;
    std::uint64_t offset = 0;
    const auto add = [&](const char* name, std::vector<std::int64_t> shape) {
      input::StoredTensor& tensor = files.tensors.emplace_back();
      tensor.name = name;
      tensor.type = decode::ElementType::kF32;
      tensor.bytes = sizeof(float);
      for (const std::int64_t side : shape) {
        tensor.bytes *= static_cast<std::uint64_t>(side);
      }
      tensor.shape = std::move(shape);
      tensor.offset = offset;
      offset += tensor.bytes;
    };
    add("blk.0.attn_q.weight", {2, 4});
    add("blk.0.ffn_down_exps.weight", {2, 4, 3});
    return model::index_model(files);
  }();
  return index;
}

void check_entries(const model::ImportanceMatrix& file, std::uint64_t size) {
  for (const model::ImportanceEntry& entry : file.entries()) {
    demand(entry.value_count > 0 && entry.offset <= size &&
           entry.value_count <= (size - entry.offset) / sizeof(float));
    demand(!entry.divisors.empty() && entry.value_count % entry.divisors.size() == 0);
    for (const double divisor : entry.divisors) {
      demand(divisor >= 0.0 && std::isfinite(divisor));
    }
    for (const float value : file.read_values(entry.offset, entry.value_count)) {
      demand(value >= 0.0F && std::isfinite(value));
    }
  }
}

void weigh(const std::shared_ptr<const model::ImportanceMatrix>& file) {
  model::ModelIndex index = small_model();
  std::vector<std::int64_t> selected(index.matrices.size());
  std::iota(selected.begin(), selected.end(), 0);
  model::weigh_columns(file, index, selected);
  std::size_t weighted = 0;
  for (const std::int64_t i : selected) {
    const model::MatrixRecord& matrix = index.matrices.at(static_cast<std::size_t>(i));
    if (matrix.table != model::ResultTable::kImatrix) {
      continue;
    }
    const std::vector<double> scale = model::activation_scale(matrix);
    demand(scale.size() == static_cast<std::size_t>(matrix.cols));
    for (const double factor : scale) {
      demand(factor >= 0.0 && std::isfinite(factor));
    }
    ++weighted;
  }
  demand(weighted > 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const auto file = std::make_shared<const model::ImportanceMatrix>(
        input::make_memory_source("fuzz.imatrix", std::as_bytes(std::span(data, size))));
    check_entries(*file, size);
    weigh(file);
  } catch (const FormatError&) {
  } catch (const UsageError&) {  // of another model
  }
  return 0;
}
