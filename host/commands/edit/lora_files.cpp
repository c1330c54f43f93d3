// Owns LoRA adapters made of edits: the files that PEFT and llama.cpp read.
#include "patch.hpp"

#include "core/integers.hpp"
#include "core/json/json_document.hpp"
#include "core/text/secrets.hpp"
#include "gguf/writing/writer.hpp"
#include "write/safetensors_writer.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

namespace vindex::edit {
namespace {
using Floats = std::vector<float>;
constexpr std::string_view kWeight = ".weight";
/// Of the PEFT whose layout is written: before it sides of stacks were taken the other way round.
constexpr std::string_view kPeftVersion = "0.19.1";

/// An edit and where its matrix begins in its slice.
struct PlacedEdit {
  const LowRankEdit* edit = nullptr;
  std::int64_t first_row = 0;
};

/// The matrices of one tensor: one, or slices of a stack.
struct AdaptedTensor {
  std::string name;
  bool embedding = false;
  bool transposed = false;
  bool parameter = false;
  std::int64_t slices = -1;
  std::int64_t rows = 0, cols = 0;
  std::int64_t rank = 0;  ///< largest of the slices
  std::map<std::int32_t, std::vector<PlacedEdit>> edits;

  const LowRankEdit& only() const { return *edits.begin()->second.front().edit; }
};

std::vector<AdaptedTensor> by_tensor(const std::vector<AdaptedMatrix>& matrices) {
  std::map<std::string, AdaptedTensor> found;
  for (const AdaptedMatrix& matrix : matrices) {
    const PatchEntry& entry = *matrix.entry;
    const bool gathered = !matrix.stack.empty();
    const std::string& name = gathered ? matrix.stack : entry.tensor;
    AdaptedTensor& tensor = found[name];
    tensor.name = name;
    tensor.embedding = matrix.embedding;
    tensor.transposed = matrix.transposed;
    tensor.parameter = matrix.parameter || matrix.slices >= 0 || !name.ends_with(kWeight);
    tensor.slices = matrix.slices;
    tensor.rows = gathered ? matrix.stack_rows : entry.edit.rows;
    tensor.cols = entry.edit.cols;
    std::vector<PlacedEdit>& slice = tensor.edits[gathered ? matrix.expert : entry.slice];
    slice.push_back({&entry.edit, matrix.first_row});
    std::int64_t rank = 0;
    for (const PlacedEdit& placed : slice) {
      rank += placed.edit->rank;
    }
    tensor.rank = std::max(tensor.rank, rank);
  }
  std::vector<AdaptedTensor> out;
  for (auto& [name, tensor] : found) {
    out.push_back(std::move(tensor));
  }
  return out;
}

/// One tensor of an adapter, dimensions outermost first.
struct Factor {
  std::string name;
  std::vector<std::int64_t> shape;
  Floats values;
};

/// Factors of a stack [experts, rank, in] and [experts, out, rank], zero where nothing is edited.
std::pair<Floats, Floats> stacked(const AdaptedTensor& tensor) {
  const std::int64_t slices = std::max<std::int64_t>(tensor.slices, 1);
  Floats a(as_size(slices * tensor.rank * tensor.cols));
  Floats b(as_size(slices * tensor.rows * tensor.rank));
  for (const auto& [number, placed] : tensor.edits) {
    const std::int64_t slice = std::max(number, 0);
    std::int64_t first = 0;  // row of a, column of b
    for (const auto& [edit, first_row] : placed) {
      std::copy(edit->a.begin(), edit->a.end(),
                a.begin() + (slice * tensor.rank + first) * tensor.cols);
      for (std::int64_t row = 0; row < edit->rows; ++row) {
        std::copy_n(edit->b.begin() + row * edit->rank, edit->rank,
                    b.begin() + (slice * tensor.rows + first_row + row) * tensor.rank + first);
      }
      first += edit->rank;
    }
  }
  return {std::move(a), std::move(b)};
}

/// The module that holds a parameter of the base model, and the parameter.
std::pair<std::string, std::string> split_path(const std::string& name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string::npos ? std::pair{std::string(), name}
                                  : std::pair{name.substr(0, dot), name.substr(dot + 1)};
}

/// PEFT's layout of a parameter's factors: A [experts * rank, in], expert by expert; B [out, rank *
/// experts], experts fastest.
void peft_parameter(const AdaptedTensor& tensor, const std::string& prefix,
                    std::vector<Factor>& out) {
  const std::int64_t slices = std::max<std::int64_t>(tensor.slices, 1);
  auto [a, stack] = stacked(tensor);
  Floats b(stack.size());
  for (std::int64_t e = 0; e < slices; ++e) {
    for (std::int64_t row = 0; row < tensor.rows; ++row) {
      for (std::int64_t k = 0; k < tensor.rank; ++k) {
        b[as_size((row * tensor.rank + k) * slices + e)] =
            stack[as_size((e * tensor.rows + row) * tensor.rank + k)];
      }
    }
  }
  out.push_back({prefix + ".lora_A.weight", {slices * tensor.rank, tensor.cols}, std::move(a)});
  out.push_back({prefix + ".lora_B.weight", {tensor.rows, tensor.rank * slices}, std::move(b)});
}

void peft_module(const AdaptedTensor& tensor, const std::string& prefix, std::vector<Factor>& out) {
  const LowRankEdit& edit = tensor.only();
  if (tensor.embedding) {
    out.push_back({prefix + ".lora_embedding_A",
                   {edit.rank, edit.rows},
                   transposed_of<float>(edit.b, edit.rows, edit.rank)});
    out.push_back({prefix + ".lora_embedding_B",
                   {edit.cols, edit.rank},
                   transposed_of<float>(edit.a, edit.rank, edit.cols)});
    return;
  }
  out.push_back({prefix + ".lora_A.weight", {edit.rank, edit.cols}, edit.a});
  out.push_back({prefix + ".lora_B.weight", {edit.rows, edit.rank}, edit.b});
}

/// The wrapper of this parameter lies within that of the other: PEFT wraps parameters in the order
/// in which the module's class declares them, the last outermost.
constexpr std::string_view kInner = "gate_up_proj";
constexpr std::string_view kOuter = "down_proj";

/// Modules of which two parameters are adapted. Errors: E-LORA-STACKS.
std::set<std::string> nested_holders(const std::vector<AdaptedTensor>& tensors) {
  std::map<std::string, std::set<std::string>> parameters;
  std::set<std::string> nested;
  for (const AdaptedTensor& tensor : tensors) {
    if (tensor.parameter) {
      const auto [path, parameter] = split_path(tensor.name);
      parameters[path].insert(parameter);
    }
  }
  for (const auto& [path, names] : parameters) {
    if (names.size() < 2) {
      continue;
    }
    if (names != std::set<std::string>{std::string(kInner), std::string(kOuter)}) {
      throw ConfigurationError(
          "E-LORA-STACKS",
          fmt::format("{}: PEFT adapts several parameters of a module in the order of the model's "
                      "class, which is not known for these; write one adapter for each",
                      printable(path)));
    }
    nested.insert(path);
  }
  return nested;
}

}  // namespace

void write_peft_adapter(write::OutputFolder& folder, const std::vector<AdaptedMatrix>& matrices,
                        const std::string& base_model) {
  std::vector<AdaptedTensor> tensors = by_tensor(matrices);
  std::vector<Factor> factors;
  Json modules = Json::array();
  Json parameters = Json::array();
  Json ranks = Json::object();
  const std::set<std::string> nested = nested_holders(tensors);
  std::int64_t most = 0;
  bool all_transposed = true;
  for (const AdaptedTensor& tensor : tensors) {
    most = std::max(most, tensor.rank);
  }
  for (AdaptedTensor& tensor : tensors) {
    const bool module = !tensor.parameter;
    const auto [path, parameter] = split_path(tensor.name);
    const std::string target = module ? path : tensor.name;
    std::string prefix = "base_model.model." + path;
    if (module) {
      modules.push_back(path);
      peft_module(tensor, prefix, factors);
      all_transposed = all_transposed && tensor.transposed;
    } else {
      if (nested.contains(path) && parameter == kInner) {
        prefix += ".base_layer";
      }
      parameters.push_back(tensor.name);
      tensor.rank = most;
      peft_parameter(tensor, prefix, factors);
      all_transposed = false;
    }
    if (tensor.rank != most) {
      ranks[target] = tensor.rank;
    }
  }
  std::vector<write::SafetensorsTensor> layout;
  for (const Factor& factor : factors) {
    layout.push_back({factor.name, decode::ElementType::kF32, factor.shape});
  }
  AtomicFile& file = folder.create("adapter_model.safetensors");
  write::SafetensorsWriter writer(file, std::move(layout), {{"format", "pt"}},
                                  write::TensorOrder::kAsGiven);
  for (std::size_t i = 0; i < factors.size(); ++i) {
    writer.write(i, 0, std::as_bytes(std::span(factors[i].values)));
  }
  writer.finish();
  const Json config = {{"base_model_name_or_path", without_secrets(base_model)},
                       {"bias", "none"},
                       {"fan_in_fan_out", all_transposed},
                       {"inference_mode", true},
                       {"lora_alpha", most},
                       {"lora_dropout", 0.0},
                       {"modules_to_save", nullptr},
                       {"peft_type", "LORA"},
                       {"peft_version", kPeftVersion},
                       {"r", most},
                       {"rank_pattern", ranks},
                       {"alpha_pattern", ranks},
                       {"target_modules", modules},
                       {"target_parameters", parameters.empty() ? Json(nullptr) : parameters},
                       {"task_type", nullptr},
                       {"use_dora", false},
                       {"use_rslora", false}};
  folder.write_text("adapter_config.json", config.dump(2) + "\n");
}

void write_gguf_adapter(AtomicFile& file, const std::vector<AdaptedMatrix>& matrices,
                        const std::string& architecture, const std::string& program) {
  const std::vector<AdaptedTensor> tensors = by_tensor(matrices);
  std::int64_t most = 0;
  for (const AdaptedTensor& tensor : tensors) {
    most = std::max(most, tensor.rank);
  }
  std::vector<Factor> factors;
  for (const AdaptedTensor& tensor : tensors) {
    Factor a{tensor.name + ".lora_a", {tensor.rank, tensor.cols}, {}};
    Factor b{tensor.name + ".lora_b", {tensor.rows, tensor.rank}, {}};
    if (tensor.slices >= 0) {
      std::tie(a.values, b.values) = stacked(tensor);
      a.shape.insert(a.shape.begin(), tensor.slices);
      b.shape.insert(b.shape.begin(), tensor.slices);
    } else {
      const LowRankEdit& edit = tensor.only();
      a.values = edit.a;
      b.values = edit.b;
      if (tensor.name == "token_embd.weight") {
        a = {a.name, {edit.rows, edit.rank}, edit.b};
        b = {b.name, {edit.cols, edit.rank}, transposed_of<float>(edit.a, edit.rank, edit.cols)};
      }
    }
    // One alpha for all: alpha / rank is then not 1 for those of less rank.
    if (tensor.rank != most) {
      for (float& value : b.values) {
        value = static_cast<float>(static_cast<double>(value) * static_cast<double>(tensor.rank) /
                                   static_cast<double>(most));
      }
    }
    factors.push_back(std::move(a));
    factors.push_back(std::move(b));
  }
  gguf::KeySection keys;
  keys.add_string("general.architecture", architecture);
  keys.add_string("general.type", "adapter");
  keys.add_string("general.name", "edit by " + program);
  keys.add_string("adapter.type", "lora");
  keys.add<float>("adapter.lora.alpha", static_cast<float>(most));
  std::vector<gguf::TensorLayout> layout;
  for (const Factor& factor : factors) {
    layout.push_back(
        {factor.name, decode::ElementType::kF32, {factor.shape.rbegin(), factor.shape.rend()}});
  }
  gguf::Writer writer(file, keys, std::move(layout));
  for (std::size_t i = 0; i < factors.size(); ++i) {
    writer.write(i, 0, std::as_bytes(std::span(factors[i].values)));
  }
  writer.finish();
  file.flush();
}

}  // namespace vindex::edit
