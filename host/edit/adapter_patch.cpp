#include "adapter_patch.hpp"

#include "parameter_adapter.hpp"
#include "slabs.hpp"

#include <vindex/core/error.hpp>
#include <vindex/core/excerpt.hpp>
#include <vindex/core/nearest_name.hpp>
#include <vindex/model/model_index.hpp>
#include <vindex/model/product.hpp>
#include <vindex/shard/model_files.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>

namespace vindex::edit {
namespace {

/// What an adapter holds beside factors: whole tensors, biases. Nothing of this is a low-rank edit.
void require_factors_only(const shard::ModelFiles& files, bool force, Patch& patch) {
  std::vector<std::string> rest;
  for (const shard::StoredTensor& tensor : files.tensors) {
    if (tensor.name.find(".lora_") == std::string::npos || tensor.name.ends_with(".bias")) {
      rest.push_back(tensor.name);
    }
  }
  if (rest.empty()) {
    return;
  }
  const std::string text =
      fmt::format("{}: the adapter also holds tensors that are no factors and are not applied: {}",
                  printable(files.path), name_list(rest));
  if (!force) {
    throw ConfigurationError("E-ADAPTER-REST", text + "; --force applies the factors alone");
  }
  patch.warnings.push_back({"W-ADAPTER-REST", text});
}

/// A factor as it enters the product: left() x right().
std::vector<float> factor_values(run::SourceWatch& watch, const model::ProductFactor& factor) {
  const model::MatrixRecord& matrix = *factor.matrix;
  std::vector<float> values;
  each_slab(watch, matrix, [&](const Slab& slab) {
    values.insert(values.end(), slab.values.begin(), slab.values.end());
    return true;
  });
  expects(factor.first_row == 0 && factor.first_col == 0 && factor.rows == matrix.rows &&
              factor.cols == matrix.cols && !matrix.transposed,
          "factors of an adapter are whole");
  if (!factor.turned) {
    return values;
  }
  std::vector<float> turned(values.size());
  for (std::int64_t i = 0; i < factor.rows; ++i) {
    for (std::int64_t j = 0; j < factor.cols; ++j) {
      turned[static_cast<std::size_t>(j * factor.rows + i)] =
          values[static_cast<std::size_t>(i * factor.cols + j)];
    }
  }
  return turned;
}

}  // namespace

Patch read_adapter(const std::string& path, bool force) {
  shard::OpenOptions opening;
  opening.adapter = true;
  const shard::ModelFiles files = shard::open_model(path, opening);
  const bool has_factors = std::any_of(
      files.tensors.begin(), files.tensors.end(),
      [](const auto& tensor) { return tensor.name.find(".lora_") != std::string::npos; });
  if (!has_factors) {
    throw FormatError(
        "E-PATCH-FORMAT", printable(path),
        "is neither a patch (safetensors with the metadata format vindex-patch/1) nor "
        "a LoRA adapter (PEFT, MLX, GGUF)");
  }
  const model::ModelIndex index = model::index_model(files, {.lora = true});
  Patch patch;
  patch.kind = "LoRA adapter";
  for (const Warning& warning : index.warnings) {
    if (warning.id == "W-LORA-DORA") {
      throw ConfigurationError("E-ADAPTER-DORA",
                               printable(path) +
                                   ": the adapter is a DoRA: its magnitudes rescale rows of the "
                                   "merged weight, which no sum can do; merge it with PEFT");
    }
    patch.warnings.push_back(warning);
  }
  require_factors_only(files, force, patch);
  run::SourceWatch watch(files);
  std::set<std::string> adapters;
  for (const model::MatrixRecord& record : index.matrices) {
    if (record.table != model::ResultTable::kProduct) {
      continue;
    }
    if (!record.unsupported.empty()) {
      std::vector<PatchEntry> slices = parameter_entries(files, record);
      if (!slices.empty()) {
        std::move(slices.begin(), slices.end(), std::back_inserter(patch.entries));
        continue;
      }
      throw ConfigurationError(
          "E-ADAPTER-PAIR", fmt::format("{}: {}: {}", printable(path), model::matrix_name(record),
                                        record.unsupported));
    }
    const model::Product& product = *record.product;
    PatchEntry entry;
    const std::size_t at = record.tensor.rfind('@');
    entry.tensor = record.tensor.substr(0, at);
    adapters.insert(at == std::string::npos ? std::string() : record.tensor.substr(at + 1));
    entry.slice = record.slice;
    entry.edit.rows = product.factors[0].left();
    entry.edit.rank = product.factors[0].right();
    entry.edit.cols = product.factors[1].right();
    entry.edit.b = factor_values(watch, product.factors[0]);
    entry.edit.a = factor_values(watch, product.factors[1]);
    entry.edit = scaled(std::move(entry.edit), product.scale);
    patch.entries.push_back(std::move(entry));
  }
  watch.require_unchanged();
  if (adapters.size() > 1) {
    throw ConfigurationError(
        "E-ADAPTER-PAIR",
        fmt::format("{}: holds {} adapters; apply files of one adapter each, one after the other",
                    printable(path), adapters.size()));
  }
  return patch;
}

}  // namespace vindex::edit
