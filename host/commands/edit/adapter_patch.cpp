// Owns reading an adapter's factors as entries of a patch, and refusing what is more than factors.
#include "patch.hpp"

#include "core/text/nearest_name.hpp"
#include "core/text/text_parts.hpp"
#include "decode/decode_matrix.hpp"
#include "engine/units/derived_rows.hpp"
#include "engine/units/matrix_loader.hpp"
#include "engine/units/row_slabs.hpp"
#include "engine/units/source_watch.hpp"
#include "input/model_files.hpp"
#include "input/open/open_model.hpp"
#include "model/adapters/adapter_names.hpp"
#include "model/index/index_model.hpp"
#include "model/model_index.hpp"
#include "model/products/product.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace vindex::edit {

namespace {

/// A tensor of an adapter that is no factor of a pair.
struct WholeTensor {
  std::string name;
  const model::MatrixRecord* held = nullptr;  ///< in the adapter
  /// The matrix of the model, of the same sides, that it may be a copy of; null: none.
  const model::MatrixRecord* wanted = nullptr;
};

using model::MatrixRecord;

/// The first whole matrix of which `holds` is true, or null.
template <typename Condition>
const MatrixRecord* matrix_where(const model::ModelIndex& index, const Condition& holds) {
  const auto found =
      std::find_if(index.matrices.begin(), index.matrices.end(), [&](const MatrixRecord& matrix) {
        return matrix.table == model::ResultTable::kMatrix && matrix.slice < 0 && holds(matrix);
      });
  return found == index.matrices.end() ? nullptr : &*found;
}

const MatrixRecord* matrix_called(const model::ModelIndex& index, const std::string& name) {
  return matrix_where(index, [&](const MatrixRecord& matrix) { return matrix.tensor == name; });
}

/// The one matrix of `block` outside the layers.
const MatrixRecord* matrix_of(const model::ModelIndex& index, model::Block block) {
  return matrix_where(
      index, [&](const MatrixRecord& matrix) { return matrix.layer < 0 && matrix.block == block; });
}

bool same_sides(const MatrixRecord& a, const MatrixRecord& b) {
  return a.rows == b.rows && a.cols == b.cols && a.transposed == b.transposed &&
         a.unsupported.empty() && b.unsupported.empty();
}

bool same_values(engine::SourceWatch& watch_a, const MatrixRecord& a, engine::SourceWatch& watch_b,
                 const MatrixRecord& b) {
  const auto input_a = engine::make_streamed_input(watch_a, a);
  const auto input_b = engine::make_streamed_input(watch_b, b);
  const std::int64_t cols = a.stored_cols();
  const std::int64_t unit = std::max<std::int64_t>(
      1, std::max<std::int64_t>(a.encoding.block_rows, b.encoding.block_rows));
  const std::int64_t step = engine::slab_rows(cols, unit);
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

/// Those of an adapter, by its headers: PEFT saves the weight of an embedding beside its factors
/// (NAME.base_layer.weight), and of a model that ties its output to the embedding both.
std::vector<WholeTensor> whole_tensors(const input::ModelFiles& files,
                                       const model::ModelIndex& index, const PatchBase* base) {
  std::vector<WholeTensor> whole;
  for (const input::StoredTensor& tensor : files.tensors) {
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

/// Whether `tensor`, which has a matrix of the model, holds its very numbers. Memory: two slabs.
/// Errors: those of reading.
bool is_copy(const input::ModelFiles& files, const WholeTensor& tensor, const PatchBase& base) {
  engine::SourceWatch adapter(files);
  engine::SourceWatch model(base.files);
  const bool copy = same_values(adapter, *tensor.held, model, *tensor.wanted);
  adapter.require_unchanged();
  model.require_unchanged();
  return copy;
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
          fmt::format("{}: the adapter is not a plain LoRA: {}", printable(path), warning.text));
    }
    patch.warnings.push_back(warning);
  }
}

std::vector<float> values_of(engine::FactorReader& reader, const model::ProductFactor& factor) {
  const cpu::Factor read = reader.read(factor);
  return {read.values.begin(), read.values.end()};  // they were float32 before
}

/// "0.21.2"; nothing for versions between releases.
std::optional<std::array<int, 3>> peft_version(const input::ModelFiles& files) {
  const JsonValue* value = files.adapter ? files.adapter->find("peft_version") : nullptr;
  const std::string* text = value == nullptr ? nullptr : value->as_string();
  if (text == nullptr) {
    return std::nullopt;
  }
  std::array<int, 3> version{};
  const std::vector<std::string_view> parts = split(*text, '.');
  for (std::size_t i = 0; i < version.size(); ++i) {
    const auto number = parts.size() == version.size() ? whole_number<int>(parts[i]) : std::nullopt;
    if (!number || *number < 0) {
      return std::nullopt;
    }
    version.at(i) = *number;
  }
  return version;
}

std::optional<std::string> architecture_of(const input::ModelFiles& files) {
  if (files.format != input::ContainerFormat::kGguf) {
    return std::nullopt;
  }
  const std::string* const text = gguf::find_text(files.keys, "general.architecture");
  return text == nullptr ? std::string() : *text;
}

PatchEntry outline_of(const model::MatrixRecord& record,
                      const std::optional<std::array<int, 3>>& version) {
  const model::Product& product = *record.product;
  PatchEntry entry;
  entry.tensor = record.tensor.substr(0, record.tensor.rfind('@'));
  entry.slice = record.slice;
  entry.edit.rows = product.factors[0].left();
  entry.edit.rank = product.factors[0].right();
  entry.edit.cols = product.factors[1].right();
  if (const std::int64_t experts = product.factors[0].col_step; experts > 1) {
    entry.parameter = {record.layer, record.role, experts, version};
  }
  return entry;
}

class AdapterFile final : public PatchFile {
 public:
  AdapterFile(const std::string& path, bool force, const PatchBase* base)
      : force_(force), files_(open(path)), index_(model::index_model(files_, {.lora = true})) {
    if (base != nullptr) {
      base_.emplace(*base);
    }
    outline_.kind = "LoRA adapter";
    outline_.architecture = architecture_of(files_);
    refuse_variants(path, index_, outline_);
    whole_ = whole_tensors(files_, index_, base);
    std::vector<std::string> rest;
    for (const WholeTensor& tensor : whole_) {
      if (tensor.wanted == nullptr) {
        rest.push_back(tensor.name);
      }
    }
    if (!rest.empty() && !force) {
      refuse_rest(rest);
    }
    add_entries();
  }

  Patch read() override {
    Patch patch = outline_;
    if (const std::vector<std::string> rest = no_copies(); !rest.empty()) {
      if (!force_) {
        refuse_rest(rest);
      }
      patch.warnings.push_back({"W-ADAPTER-REST", rest_text(rest)});
    }
    engine::SourceWatch watch(files_);
    engine::FactorReader reader(watch);
    for (std::size_t i = 0; i < products_.size(); ++i) {
      const model::Product& product = *products_[i]->product;
      LowRankEdit& edit = patch.entries[i].edit;
      edit.b = values_of(reader, product.factors[0]);
      edit.a = values_of(reader, product.factors[1]);
      edit = scaled(std::move(edit), product.scale);
    }
    watch.require_unchanged();
    return patch;
  }

 private:
  static input::ModelFiles open(const std::string& path) {
    input::ModelFiles files = input::open_model(path, {.model_config = {}, .adapter = true});
    const bool has_factors = std::any_of(
        files.tensors.begin(), files.tensors.end(),
        [](const auto& tensor) { return tensor.name.find(".lora_") != std::string::npos; });
    if (!has_factors) {
      throw FormatError(
          "E-PATCH-FORMAT", printable(path),
          "is neither a patch (safetensors with the metadata format vindex-patch/1) nor "
          "a LoRA adapter (PEFT, MLX, GGUF)");
    }
    return files;
  }

  void add_entries() {
    const auto version = peft_version(files_);
    std::set<std::string> adapters;
    for (const model::MatrixRecord& record : index_.matrices) {
      if (record.table != model::ResultTable::kProduct) {
        continue;
      }
      if (!record.unsupported.empty()) {
        const std::string where =
            fmt::format("{}: {}", printable(files_.path), model::matrix_name(record));
        if (record.is_malformed) {
          throw FormatError("E-ADAPTER-PAIR", where, record.unsupported);
        }
        throw ConfigurationError("E-ADAPTER-PAIR",
                                 fmt::format("{}: {}", where, record.unsupported));
      }
      const std::size_t at = record.tensor.rfind('@');
      adapters.insert(at == std::string::npos ? std::string() : record.tensor.substr(at + 1));
      outline_.entries.push_back(outline_of(record, version));
      products_.push_back(&record);
    }
    if (adapters.size() > 1) {
      throw ConfigurationError(
          "E-ADAPTER-PAIR",
          fmt::format("{}: holds {} adapters; apply files of one adapter each, one after the other",
                      printable(files_.path), adapters.size()));
    }
  }

  /// Names of whole tensors that are no copies of the model's, by their values.
  std::vector<std::string> no_copies() const {
    std::vector<std::string> rest;
    for (const WholeTensor& tensor : whole_) {
      if (tensor.wanted == nullptr || !is_copy(files_, tensor, *base_)) {
        rest.push_back(tensor.name);
      }
    }
    return rest;
  }

  std::string rest_text(const std::vector<std::string>& rest) const {
    return fmt::format(
        "{}: the adapter also holds tensors that are not factors{} and are not applied: "
        "{}",
        printable(files_.path), base_ ? ", are not copies of the model's" : "", name_list(rest));
  }

  [[noreturn]] void refuse_rest(const std::vector<std::string>& rest) const {
    throw ConfigurationError("E-ADAPTER-REST",
                             rest_text(rest) + "; --accept-findings applies the factors alone");
  }

  bool force_;
  input::ModelFiles files_;
  model::ModelIndex index_;
  std::optional<PatchBase> base_;
  std::vector<WholeTensor> whole_;
  std::vector<const model::MatrixRecord*> products_;  ///< beside the outline's entries
};

}  // namespace

std::unique_ptr<PatchFile> open_adapter(const std::string& path, bool force,
                                        const PatchBase* base) {
  return std::make_unique<AdapterFile>(path, force, base);
}

}  // namespace vindex::edit
