#include "parameter_adapter.hpp"

#include <vindex/core/error.hpp>
#include <vindex/decode/decode_matrix.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>

namespace vindex::edit {
namespace {

constexpr std::int64_t kMostExperts = 1 << 16;

std::optional<double> number_of(const JsonValue& config, const char* key) {
  const JsonValue* value = config.find(key);
  if (value == nullptr) {
    return std::nullopt;
  }
  if (const std::uint64_t* natural = value->as_unsigned()) {
    return static_cast<double>(*natural);
  }
  const double* real = std::get_if<double>(&value->storage());
  return real != nullptr && std::isfinite(*real) ? std::optional(*real) : std::nullopt;
}

bool is_empty_object(const JsonValue& config, const char* key) {
  const JsonValue* value = config.find(key);
  const JsonValue::Object* members = value == nullptr ? nullptr : value->as_object();
  return members == nullptr || members->empty();
}

bool is_set(const JsonValue& config, const char* key) {
  const JsonValue* value = config.find(key);
  return value != nullptr && value->as_bool() != nullptr && *value->as_bool();
}

/// The one parameter of `module` that is a target; empty where it is none or one of several.
std::string target_of_module(const JsonValue& config, const std::string& module) {
  const JsonValue* list = config.find("target_parameters");
  const JsonValue::Array* targets = list == nullptr ? nullptr : list->as_array();
  std::string found;
  for (const JsonValue& target : targets == nullptr ? JsonValue::Array() : *targets) {
    const std::string* name = target.as_string();
    const std::size_t dot = name == nullptr ? std::string::npos : name->rfind('.');
    if (dot == std::string::npos) {
      return {};  // may be of any module
    }
    const std::string holder = name->substr(0, dot);
    if (module == holder || module.ends_with("." + holder)) {
      const std::string leaf = name->substr(dot + 1);
      if (!found.empty() && found != leaf) {
        return {};
      }
      found = leaf;
    }
  }
  return found;
}

const shard::StoredTensor* factor_of(const shard::ModelFiles& files, const std::string& module,
                                     std::string_view side) {
  const shard::StoredTensor* found = nullptr;
  for (const shard::StoredTensor& tensor : files.tensors) {
    const std::string wanted = fmt::format("{}.{}", module, side);
    const std::size_t at = tensor.name.find(wanted);
    if (at != std::string::npos && (at == 0 || tensor.name[at - 1] == '.')) {
      if (found != nullptr || tensor.shape.size() != 2) {
        return nullptr;
      }
      found = &tensor;
    }
  }
  return found;
}

std::vector<float> values_of(const shard::ModelFiles& files, const shard::StoredTensor& tensor) {
  const decode::Encoding encoding = decode::plain_encoding(tensor.type);
  if (!decode::is_decodable(encoding)) {
    return {};
  }
  std::vector<std::byte> bytes(tensor.bytes);
  files.shards[static_cast<std::size_t>(tensor.shard)].source->read(tensor.offset, bytes);
  decode::EncodedMatrix view;
  view.encoding = &encoding;
  view.rows = tensor.shape[0];
  view.cols = tensor.shape[1];
  view.codes = bytes.data();
  view.row_stride_bytes = view.rows == 0 ? 0 : static_cast<std::int64_t>(tensor.bytes) / view.rows;
  std::vector<float> out(static_cast<std::size_t>(view.rows * view.cols));
  decode::decode_matrix(view, out.data(), view.cols);
  if (!std::all_of(out.begin(), out.end(), [](float value) { return std::isfinite(value); })) {
    throw FormatError("E-EDIT-VALUES", printable(tensor.name), "holds numbers that are not finite");
  }
  return out;
}

}  // namespace

std::vector<PatchEntry> parameter_entries(const shard::ModelFiles& files,
                                          const model::MatrixRecord& record) {
  constexpr std::string_view kWeight = ".weight";
  if (!files.adapter || !record.tensor.ends_with(kWeight)) {
    return {};
  }
  const JsonValue& config = *files.adapter;
  const std::string module = record.tensor.substr(0, record.tensor.size() - kWeight.size());
  const std::string leaf = target_of_module(config, module);
  const auto rank = number_of(config, "r");
  const auto alpha = number_of(config, "lora_alpha");
  const shard::StoredTensor* a = factor_of(files, module, "lora_A");
  const shard::StoredTensor* b = factor_of(files, module, "lora_B");
  if (leaf.empty() || !rank || !alpha || !(*rank >= 1.0 && *rank <= 1e6) || a == nullptr ||
      b == nullptr || !is_empty_object(config, "rank_pattern") ||
      !is_empty_object(config, "alpha_pattern")) {
    return {};
  }
  const auto r = static_cast<std::int64_t>(*rank);
  const std::int64_t experts = a->shape[0] / r;
  if (experts < 1 || experts > kMostExperts || a->shape[0] != experts * r ||
      b->shape[1] != a->shape[0]) {
    return {};
  }
  const std::vector<float> all_a = values_of(files, *a);
  const std::vector<float> all_b = values_of(files, *b);
  if (all_a.empty() || all_b.empty()) {
    return {};
  }
  const double scale =
      *alpha / (is_set(config, "use_rslora") ? std::sqrt(*rank) : static_cast<double>(r));
  std::vector<PatchEntry> entries;
  for (std::int64_t e = 0; e < experts; ++e) {
    PatchEntry entry;
    entry.tensor = module + "." + leaf;
    entry.slice = static_cast<std::int32_t>(e);
    entry.edit = {b->shape[0], a->shape[1], r, {}, {}};
    const auto first = all_a.begin() + e * r * a->shape[1];
    entry.edit.a.assign(first, first + r * a->shape[1]);
    for (std::int64_t row = 0; row < b->shape[0]; ++row) {
      for (std::int64_t k = 0; k < r; ++k) {
        entry.edit.b.push_back(
            all_b[static_cast<std::size_t>(row * b->shape[1] + k * experts + e)]);
      }
    }
    entry.edit = scaled(std::move(entry.edit), scale);
    entries.push_back(std::move(entry));
  }
  return entries;
}

}  // namespace vindex::edit
