// Owns reading an adapter's factors as entries of a patch, and refusing what is more than factors.
#include "adapter_patch.hpp"

#include "whole_tensors.hpp"

#include <vindex/core/error.hpp>
#include <vindex/core/excerpt.hpp>
#include <vindex/core/nearest_name.hpp>
#include <vindex/model/model_index.hpp>
#include <vindex/model/product.hpp>
#include <vindex/run/product_rows.hpp>
#include <vindex/shard/model_files.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

namespace vindex::edit {
namespace {

/// What an adapter holds beside factors: whole tensors, biases. Nothing of this is a low-rank edit.
void require_factors_only(const shard::ModelFiles& files, const model::ModelIndex& index,
                          const PatchBase* base, bool force, Patch& patch) {
  const std::vector<std::string> rest = whole_tensors(files, index, base);
  if (rest.empty()) {
    return;
  }
  const std::string text = fmt::format(
      "{}: the adapter also holds tensors that are no factors{} and are not applied: "
      "{}",
      printable(files.path), base == nullptr ? "" : ", are no copies of the model's",
      name_list(rest));
  if (!force) {
    throw ConfigurationError("E-ADAPTER-REST", text + "; --force applies the factors alone");
  }
  patch.warnings.push_back({"W-ADAPTER-REST", text});
}

/// Warnings that for an edit are none: the model would be another than the adapter's.
void refuse_variants(const std::string& path, const model::ModelIndex& index, Patch& patch) {
  for (const Warning& warning : index.warnings) {
    if (warning.id == "W-LORA-DORA") {
      throw ConfigurationError("E-ADAPTER-DORA",
                               printable(path) +
                                   ": the adapter is a DoRA: its magnitudes rescale rows of the "
                                   "merged weight, which no sum can do; merge it with PEFT");
    }
    if (warning.id == "W-LORA-VARIANT") {
      throw ConfigurationError(
          "E-ADAPTER-VARIANT",
          fmt::format("{}: the adapter is no plain LoRA: {}", printable(path), warning.text));
    }
    patch.warnings.push_back(warning);
  }
}

std::vector<float> values_of(run::FactorReader& reader, const model::ProductFactor& factor) {
  const cpu::Factor read = reader.read(factor);
  return {read.values.begin(), read.values.end()};  // they were float32 before
}

/// "0.21.2"; nothing for versions between releases.
std::optional<std::array<int, 3>> peft_version(const shard::ModelFiles& files) {
  const JsonValue* value = files.adapter ? files.adapter->find("peft_version") : nullptr;
  const std::string* text = value == nullptr ? nullptr : value->as_string();
  if (text == nullptr) {
    return std::nullopt;
  }
  std::array<int, 3> version{};
  const char* at = text->data();
  const char* const end = at + text->size();
  for (std::size_t i = 0; i < version.size(); ++i) {
    if (i > 0 && (at == end || *at++ != '.')) {
      return std::nullopt;
    }
    const auto [rest, error] = std::from_chars(at, end, version[i]);
    if (error != std::errc() || version[i] < 0) {
      return std::nullopt;
    }
    at = rest;
  }
  return at == end ? std::optional(version) : std::nullopt;
}

std::optional<std::string> architecture_of(const shard::ModelFiles& files) {
  if (files.format != shard::ContainerFormat::kGguf) {
    return std::nullopt;
  }
  for (const shard::GgufKey& key : files.keys) {
    const auto* text = std::get_if<std::string>(&key.value);
    if (key.name == "general.architecture" && text != nullptr) {
      return *text;
    }
  }
  return std::string();
}

PatchEntry entry_of(run::FactorReader& reader, const model::MatrixRecord& record) {
  const model::Product& product = *record.product;
  PatchEntry entry;
  entry.tensor = record.tensor.substr(0, record.tensor.rfind('@'));
  entry.slice = record.slice;
  entry.edit.rows = product.factors[0].left();
  entry.edit.rank = product.factors[0].right();
  entry.edit.cols = product.factors[1].right();
  entry.edit.b = values_of(reader, product.factors[0]);
  entry.edit.a = values_of(reader, product.factors[1]);
  entry.edit = scaled(std::move(entry.edit), product.scale);
  return entry;
}

}  // namespace

Patch read_adapter(const std::string& path, bool force, const PatchBase* base) {
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
  patch.architecture = architecture_of(files);
  refuse_variants(path, index, patch);
  require_factors_only(files, index, base, force, patch);
  const auto version = peft_version(files);
  run::SourceWatch watch(files);
  run::FactorReader reader(watch);
  std::set<std::string> adapters;
  for (const model::MatrixRecord& record : index.matrices) {
    if (record.table != model::ResultTable::kProduct) {
      continue;
    }
    if (!record.unsupported.empty()) {
      throw ConfigurationError(
          "E-ADAPTER-PAIR", fmt::format("{}: {}: {}", printable(path), model::matrix_name(record),
                                        record.unsupported));
    }
    const std::size_t at = record.tensor.rfind('@');
    adapters.insert(at == std::string::npos ? std::string() : record.tensor.substr(at + 1));
    PatchEntry entry = entry_of(reader, record);
    if (const std::int64_t experts = record.product->factors[0].col_step; experts > 1) {
      entry.parameter = {record.layer, record.role, experts, version};
    }
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
