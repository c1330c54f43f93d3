#include "logical_tensor.hpp"

#include "schemes.hpp"
#include "shape_values.hpp"

#include <vindex/core/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <unordered_map>

namespace vindex::model {

namespace {

using decode::CompanionRole;
using decode::ElementType;
using shard::StoredTensor;

/// How sure a suffix is: a strong one is a companion even where its codes are absent; a weak one
/// only beside codes of a packed or 8-bit type.
enum class Strength : std::uint8_t { kStrong, kWeak };

/// A companion `base + suffix` belongs to codes `base + codes`.
struct CompanionRow {
  std::string_view suffix;
  std::string_view codes;
  std::optional<CompanionRole> role;  ///< none: belongs to the weight, not needed for decoding
  Hint hint = Hint::kNone;
  Strength strength = Strength::kStrong;
};

constexpr auto kScale = CompanionRole::kScale;
constexpr auto kZero = CompanionRole::kZeroPoint;
constexpr auto kGroupIndex = CompanionRole::kGroupIndex;
constexpr auto kGlobal = CompanionRole::kGlobalScale;
constexpr auto kShape = CompanionRole::kShape;
constexpr std::nullopt_t kUnused = std::nullopt;

// Source: the schemes' own packages, as gathered in docs/families.md.
constexpr CompanionRow kSafetensorsCompanions[] = {
    {"_scale_inv", "", kScale, Hint::kScaleInverse},
    {".weight_scale", ".weight_packed", kScale},
    {".weight_scale", ".weight", kScale, Hint::kScale},
    {".weight_shape", ".weight_packed", kShape},
    {".weight_zero_point", ".weight_packed", kZero},
    {".weight_zero_point", ".weight", kZero, Hint::kScale},
    {".weight_g_idx", ".weight_packed", kGroupIndex},
    {".weight_g_idx", ".weight", kGroupIndex, Hint::kScale},
    {".weight_global_scale", ".weight_packed", kGlobal, Hint::kNvfp4},
    {".weight_global_scale", ".weight", kGlobal, Hint::kNvfp4},
    {".weight_scale_2", ".weight", kGlobal, Hint::kNvfp4},
    {".input_global_scale", ".weight_packed", kUnused},
    {".input_global_scale", ".weight", kUnused},
    {".input_scale", ".weight_packed", kUnused, Hint::kNone, Strength::kWeak},
    {".input_scale", ".weight", kUnused, Hint::kNone, Strength::kWeak},
    {".qscale_weight", ".weight", kScale, Hint::kScale},
    {".qscale_act", ".weight", kUnused},
    {".qzeros", ".qweight", kZero},
    {".scales", ".qweight", kScale},
    {".g_idx", ".qweight", kGroupIndex},
    {".scales", ".weight", kScale, Hint::kMlx, Strength::kWeak},
    {".biases", ".weight", kZero, Hint::kMlx, Strength::kWeak},
    {".SCB", ".weight", kScale, Hint::kBnb8},
    {".weight_format", ".weight", kUnused, Hint::kNone, Strength::kWeak},
    {".absmax", "", kScale, Hint::kBnb4},
    {".nested_absmax", "", kUnused, Hint::kBnb4},
    {".quant_map", "", kUnused, Hint::kBnb4},
    {".nested_quant_map", "", kUnused, Hint::kBnb4},
    {".quant_state.bitsandbytes__nf4", "", kUnused, Hint::kBnb4},
    {".quant_state.bitsandbytes__fp4", "", kUnused, Hint::kBnb4},
    {".scale", ".W_q", kScale},
    {".zero", ".W_q", kZero, Hint::kNone, Strength::kWeak},
    {".shape", ".W_q", kShape, Hint::kNone, Strength::kWeak},
    {".nbits", ".W_q", kUnused, Hint::kNone, Strength::kWeak},
    {".group_size", ".W_q", kUnused, Hint::kNone, Strength::kWeak},
    {".axis", ".W_q", kUnused, Hint::kNone, Strength::kWeak},
    {".packing", ".W_q", kUnused, Hint::kNone, Strength::kWeak},
    {".view_as_float", ".W_q", kUnused, Hint::kNone, Strength::kWeak},
    {".unpack_view_dtype", ".W_q", kUnused, Hint::kNone, Strength::kWeak},
    {".compute_dtype", ".W_q", kUnused, Hint::kNone, Strength::kWeak},
    {".channel_wise", ".W_q", kUnused, Hint::kNone, Strength::kWeak},
    {".optimize", ".W_q", kUnused, Hint::kNone, Strength::kWeak},
    {".round_zero", ".W_q", kUnused, Hint::kNone, Strength::kWeak},
    {".stores_quant_config", ".W_q", kUnused, Hint::kNone, Strength::kWeak},
    {".encoded_state_dict", ".W_q", kUnused, Hint::kNone, Strength::kWeak},
    {".offload_meta", ".W_q", kUnused, Hint::kNone, Strength::kWeak},
    {".scale", ".weight", kScale, Hint::kScale, Strength::kWeak},
    {"_scales", "_blocks", kScale},
    {"_scale", "", kScale, Hint::kScale, Strength::kWeak},
};

// NVFP4 blocks are not the whole weight: a float32 factor stands beside them.
constexpr CompanionRow kGgufCompanions[] = {
    {".scale", ".weight", kGlobal, Hint::kNone, Strength::kWeak},
    {".input_scale", ".weight", kUnused, Hint::kNone, Strength::kWeak},
};

/// True for types that are codes of something else more often than weights themselves.
bool is_code_type(ElementType type) {
  switch (type) {
    case ElementType::kI8:
    case ElementType::kU8:
    case ElementType::kI32:
    case ElementType::kU32:
    case ElementType::kF8E4M3:
    case ElementType::kF8E5M2:
    case ElementType::kF8E4M3FNUZ:
    case ElementType::kF8E5M2FNUZ:
    case ElementType::kF4:
    case ElementType::kNVFP4:
      return true;
    default:
      return false;
  }
}

bool is_float8(ElementType type) {
  return type == ElementType::kF8E4M3 || type == ElementType::kF8E5M2 ||
         type == ElementType::kF8E4M3FNUZ || type == ElementType::kF8E5M2FNUZ;
}

/// Companions of all codes, as singly linked lists over the stored tensors.
class Binding {
 public:
  Binding(const shard::ModelFiles& files, std::vector<Warning>& warnings)
      : files_(files),
        first_(files.tensors.size(), -1),
        next_(files.tensors.size(), -1),
        row_(files.tensors.size(), nullptr),
        codes_of_(files.tensors.size(), -1) {
    rows_ = files.format == shard::ContainerFormat::kGguf
                ? std::span<const CompanionRow>(kGgufCompanions)
                : std::span<const CompanionRow>(kSafetensorsCompanions);
    by_name_.reserve(files.tensors.size());
    for (std::size_t i = 0; i < files.tensors.size(); ++i) {
      by_name_.emplace(files.tensors[i].name, static_cast<std::int32_t>(i));
    }
    for (std::size_t i = 0; i < files.tensors.size(); ++i) {
      bind(static_cast<std::int32_t>(i), warnings);
    }
  }

  bool is_companion(std::int32_t tensor) const { return row_[at(tensor)] != nullptr; }
  bool is_orphan(std::int32_t tensor) const {
    return is_companion(tensor) && codes_of_[at(tensor)] < 0;
  }
  bool has_companions(std::int32_t codes) const { return first_[at(codes)] >= 0; }
  std::int32_t find(const std::string& name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? -1 : found->second;
  }
  /// Some 8-bit float of this model has a scale: those without one lost theirs.
  bool has_float8_scales() const { return has_float8_scales_; }
  std::vector<std::int32_t> shape_tensors() const { return shape_tensors_; }

  /// Companions of `codes` in the order of the file; appends them to `stored`.
  Found companions_of(std::int32_t codes, std::vector<std::int32_t>& stored) const {
    Found found;
    const std::size_t begin = stored.size();
    for (std::int32_t i = first_[at(codes)]; i >= 0; i = next_[at(i)]) {
      stored.push_back(i);
      const CompanionRow& row = *row_[at(i)];
      if (row.hint > found.hint) {
        found.hint = row.hint;
      }
      if (!row.role) {
        continue;
      }
      switch (*row.role) {
        case CompanionRole::kScale:
          found.scale = i;
          break;
        case CompanionRole::kZeroPoint:
          found.zero_point = i;
          break;
        case CompanionRole::kGroupIndex:
          found.group_index = i;
          break;
        case CompanionRole::kGlobalScale:
          found.global_scale = i;
          break;
        case CompanionRole::kShape:
          found.shape = i;
          break;
      }
    }
    std::sort(stored.begin() + static_cast<std::ptrdiff_t>(begin), stored.end());
    return found;
  }

 private:
  static std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }

  void bind(std::int32_t companion, std::vector<Warning>& warnings) {
    const std::string& name = files_.tensors[at(companion)].name;
    const CompanionRow* orphan_row = nullptr;
    for (const CompanionRow& row : rows_) {
      if (!name.ends_with(row.suffix)) {
        continue;
      }
      scratch_.assign(name, 0, name.size() - row.suffix.size());
      scratch_ += row.codes;
      const auto found = by_name_.find(scratch_);
      if (found == by_name_.end()) {
        if (row.strength == Strength::kStrong && orphan_row == nullptr) {
          orphan_row = &row;
        }
        continue;
      }
      const ElementType type = files_.tensors[at(found->second)].type;
      if (row.strength == Strength::kWeak && !is_code_type(type)) {
        continue;
      }
      attach(companion, found->second, row);
      return;
    }
    if (orphan_row != nullptr) {
      row_[at(companion)] = orphan_row;
      warnings.push_back({"W-COMPANION-ORPHAN", fmt::format("{} belongs to a weight that is not in "
                                                            "the model",
                                                            printable(name))});
    }
  }

  void attach(std::int32_t companion, std::int32_t codes, const CompanionRow& row) {
    row_[at(companion)] = &row;
    codes_of_[at(companion)] = codes;
    next_[at(companion)] = first_[at(codes)];
    first_[at(codes)] = companion;
    if (row.role == kShape) {
      shape_tensors_.push_back(companion);
    }
    if (row.role == kScale && is_float8(files_.tensors[at(codes)].type)) {
      has_float8_scales_ = true;
    }
  }

  const shard::ModelFiles& files_;
  std::span<const CompanionRow> rows_;
  std::unordered_map<std::string_view, std::int32_t> by_name_;
  std::vector<std::int32_t> first_;
  std::vector<std::int32_t> next_;
  std::vector<const CompanionRow*> row_;
  std::vector<std::int32_t> codes_of_;
  std::vector<std::int32_t> shape_tensors_;
  std::string scratch_;
  bool has_float8_scales_ = false;
};

/// What kind of codes `tensor` is by its name, and the logical name. Nothing: a plain tensor.
std::optional<CodeName> code_name_of(const StoredTensor& tensor, bool has_companions,
                                     std::string& logical) {
  const std::string& name = tensor.name;
  const auto base = [&](std::size_t suffix) { return name.substr(0, name.size() - suffix); };
  if (name.ends_with(".weight_packed")) {
    logical = base(14) + ".weight";
    return CodeName::kPacked;
  }
  if (name.ends_with(".qweight")) {
    logical = base(8) + ".weight";
    return CodeName::kQweight;
  }
  if (name.ends_with(".W_q")) {
    logical = base(4) + ".weight";
    return CodeName::kHqq;
  }
  if (name.ends_with("_blocks") && tensor.type == ElementType::kU8) {
    logical = base(7);
    return CodeName::kBlocks;
  }
  logical = name;
  if (has_companions) {
    return CodeName::kWeight;
  }
  return std::nullopt;
}

LogicalTensor plain(const StoredTensor& tensor, std::int32_t index) {
  LogicalTensor logical;
  logical.name = tensor.name;
  logical.codes = index;
  logical.stored = {index};
  logical.shape = tensor.shape;
  logical.encoding = decode::plain_encoding(tensor.type);
  return logical;
}

}  // namespace

std::vector<LogicalTensor> bind_companions(const shard::ModelFiles& files,
                                           const QuantClaims& claims,
                                           std::vector<Warning>& warnings) {
  const Binding binding(files, warnings);
  const ShapeValues shape_values = read_shape_values(files, binding.shape_tensors());
  const bool gguf = files.format == shard::ContainerFormat::kGguf;
  const bool scales_expected =
      binding.has_float8_scales() || claims.block.has_value() || claims.method == "fp8";

  std::vector<LogicalTensor> logicals;
  logicals.reserve(files.tensors.size());
  for (std::size_t i = 0; i < files.tensors.size(); ++i) {
    const auto index = static_cast<std::int32_t>(i);
    const StoredTensor& tensor = files.tensors[i];
    if (binding.is_orphan(index)) {
      logicals.push_back(plain(tensor, index));
      logicals.back().orphan = true;
      continue;
    }
    if (binding.is_companion(index)) {
      continue;
    }
    LogicalTensor logical = plain(tensor, index);
    if (gguf) {
      if (binding.has_companions(index)) {
        const Found found = binding.companions_of(index, logical.stored);
        if (found.global_scale >= 0) {
          logical.companions.push_back({CompanionRole::kGlobalScale, found.global_scale});
        }
      }
    } else {
      const auto code_name = code_name_of(tensor, binding.has_companions(index), logical.name);
      if (code_name) {
        Found found = binding.companions_of(index, logical.stored);
        found.shape_value = shape_values.find(found.shape);
        logical.quantised = true;
        apply_scheme(files, claims, *code_name, found, logical);
        if (logical.name != tensor.name && binding.find(logical.name) >= 0) {
          logical.unsupported =
              fmt::format("ambiguous: {} is stored both plainly and packed", logical.name);
        }
      } else if (is_float8(tensor.type) && scales_expected && tensor.shape.size() >= 2) {
        logical.unsupported = fmt::format(
            "scale missing: {}_scale{}", tensor.name,
            claims.method.empty() || claims.method == "fp8" || claims.block ? "_inv" : "");
      }
    }
    logicals.push_back(std::move(logical));
  }
  std::sort(logicals.begin(), logicals.end(), [](const LogicalTensor& a, const LogicalTensor& b) {
    return a.name != b.name ? a.name < b.name : a.codes < b.codes;
  });
  return logicals;
}

}  // namespace vindex::model
