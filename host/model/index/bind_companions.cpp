// Owns binding codes and companions, scheme by scheme, and warning of those left over.
#include "bind_companions.hpp"

#include "core/integers.hpp"
#include "core/process/parallel.hpp"
#include "core/text/name_index.hpp"
#include "model/schemes/schemes.hpp"
#include "model/schemes/weight.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

namespace vindex::model {

namespace {

using decode::CompanionRole;
using decode::ElementType;
using input::StoredTensor;

constexpr std::size_t kLogicalTensorsPerPiece = 4096;

/// True for types that are codes of something else more often than weights themselves.
bool is_code_type(ElementType type) {
  switch (type) {
    case ElementType::kI8:
    case ElementType::kU8:
    case ElementType::kI32:
    case ElementType::kU32:
    case ElementType::kF4:
    case ElementType::kNVFP4:
      return true;
    default:
      return is_float8(type);
  }
}

std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }

std::vector<std::string_view> names_of(const input::ModelFiles& files) {
  std::vector<std::string_view> names;
  names.reserve(files.tensors.size());
  for (const StoredTensor& tensor : files.tensors) {
    names.emplace_back(tensor.name);
  }
  return names;
}

/// Companions of all codes, as singly linked lists over the stored tensors.
class Binding {
 public:
  explicit Binding(const input::ModelFiles& files)
      : files_(files),
        names_(names_of(files)),
        by_name_(names_),
        first_(files.tensors.size(), -1),
        next_(files.tensors.size(), -1),
        row_(files.tensors.size(), nullptr),
        codes_of_(files.tensors.size(), -1) {
    for (const CompanionRow& row : companion_rows(files.format)) {
      rows_[static_cast<unsigned char>(row.suffix.back())].push_back(
          {&row, NameFollower(by_name_)});
    }
    // Backwards, so that the lists are in the order of the file.
    for (std::size_t i = files.tensors.size(); i-- > 0;) {
      bind(static_cast<std::int32_t>(i));
    }
  }

  bool is_companion(std::int32_t tensor) const { return row_[at(tensor)] != nullptr; }
  bool is_orphan(std::int32_t tensor) const {
    return is_companion(tensor) && codes_of_[at(tensor)] < 0;
  }
  bool has_companions(std::int32_t codes) const { return first_[at(codes)] >= 0; }
  bool has_tensor(std::string_view name) const { return by_name_.find(name).has_value(); }
  /// Some 8-bit float of this model has a scale: those without one lost theirs.
  bool has_float8_scales() const { return has_float8_scales_; }

  /// Tensors whose values the schemes need.
  std::vector<std::int32_t> small_tensors() const {
    std::vector<std::int32_t> tensors;
    for (std::size_t i = 0; i < row_.size(); ++i) {
      if (row_[i] == nullptr || codes_of_[i] < 0) {
        continue;
      }
      const Part part = row_[i]->part;
      if (part == Part::kShape || part == Part::kBits || part == Part::kGroupSize ||
          part == Part::kAxis || part == Part::kPacking || part == Part::kFormat ||
          part == Part::kState) {
        tensors.push_back(static_cast<std::int32_t>(i));
      }
    }
    return tensors;
  }

  /// Companions of `codes`; appends all of them to `stored`, in the order of the file.
  Found companions_of(std::int32_t codes, std::vector<std::int32_t>& stored) const {
    Found found;
    for (std::int32_t i = first_[at(codes)]; i >= 0; i = next_[at(i)]) {
      stored.push_back(i);
      const CompanionRow& row = *row_[at(i)];
      found.hint = std::max(found.hint, row.hint);
      found.parts[static_cast<std::size_t>(row.part)] = i;
    }
    return found;
  }

 private:
  void bind(std::int32_t companion) {
    const std::string_view name = names_[at(companion)];
    if (name.empty()) {
      return;
    }
    for (auto& [row, follower] : rows_[static_cast<unsigned char>(name.back())]) {
      if (!name.ends_with(row->suffix) || name.size() == row->suffix.size()) {
        continue;
      }
      scratch_.assign(name.substr(0, name.size() - row->suffix.size()));
      scratch_ += row->codes;
      const auto codes = follower.find(scratch_);
      if (!codes) {
        if (row->strength == Strength::kStrong && row_[at(companion)] == nullptr) {
          row_[at(companion)] = row;
        }
        continue;
      }
      // W_q says by its name that it holds codes, also where it is viewed as floats.
      if (row->strength == Strength::kWeak && row->codes != ".W_q" &&
          !is_code_type(files_.tensors[*codes].type)) {
        continue;
      }
      row_[at(companion)] = row;
      codes_of_[at(companion)] = static_cast<std::int32_t>(*codes);
      next_[at(companion)] = first_[*codes];
      first_[*codes] = companion;
      if (row->part == Part::kScale && is_float8(files_.tensors[*codes].type)) {
        has_float8_scales_ = true;
      }
      return;
    }
  }

  const input::ModelFiles& files_;
  std::vector<std::string_view> names_;
  NameIndex by_name_;
  /// By the suffix's last byte.
  std::array<std::vector<std::pair<const CompanionRow*, NameFollower>>, 256> rows_;
  std::vector<std::int32_t> first_;
  std::vector<std::int32_t> next_;
  std::vector<const CompanionRow*> row_;
  std::vector<std::int32_t> codes_of_;
  std::string scratch_;
  bool has_float8_scales_ = false;
};

/// What kind of codes `tensor` is by its name, with the logical name. Nothing: a plain tensor.
std::optional<CodeName> code_name_of(const StoredTensor& tensor, bool has_companions,
                                     std::string& logical) {
  const std::string& name = tensor.name;
  const auto base = [&](std::string_view suffix) {
    return name.substr(0, name.size() - suffix.size());
  };
  if (name.ends_with(".weight_packed")) {
    logical = base("_packed");
    return CodeName::kPacked;
  }
  if (name.ends_with(".qweight")) {
    logical = base("qweight") + "weight";
    return CodeName::kQweight;
  }
  if (name.ends_with(".W_q")) {
    logical = base("W_q") + "weight";
    return CodeName::kHqq;
  }
  if (name.ends_with("_blocks") && tensor.type == ElementType::kU8) {
    logical = base("_blocks");
    return CodeName::kBlocks;
  }
  return has_companions ? std::optional(CodeName::kWeight) : std::nullopt;
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

/// NVFP4 blocks with a float32 factor beside them: one, or one for each slice of a stack.
void bind_gguf_factor(const input::ModelFiles& files, const Binding& binding,
                      LogicalTensor& logical) {
  const Found found = binding.companions_of(logical.codes, logical.stored);
  const std::int32_t index = found[Part::kGlobalScale];
  if (index < 0) {
    return;
  }
  const StoredTensor& factor = files.tensors[at(index)];
  logical.encoding = decode::factored_encoding(logical.encoding.type);
  logical.companions.push_back({CompanionRole::kScale, index, std::nullopt});
  const bool one = factor.shape.size() <= 1 && factor.bytes == sizeof(float);
  const bool one_per_slice =
      logical.shape.size() == 3 && factor.shape.size() == 1 && factor.shape[0] == logical.shape[0];
  if (factor.type != ElementType::kF32) {
    logical.unsupported = fmt::format("scale of wrong type: {} is {}", printable(factor.name),
                                      decode::element_type_row(factor.type).name);
  } else if (!one && !one_per_slice) {
    logical.unsupported = fmt::format(
        "scale misshapen: {} is [{}], one or one per slice of [{}] is needed",
        printable(factor.name), fmt::join(factor.shape, ", "), fmt::join(logical.shape, ", "));
  }
}

/// Which tensors are codes or companions of a scheme that is read.
std::vector<bool> bound_tensors(const input::ModelFiles& files, const Binding& binding) {
  std::vector<bool> bound(files.tensors.size());
  std::string logical;
  for (std::size_t i = 0; i < bound.size(); ++i) {
    const auto index = static_cast<std::int32_t>(i);
    bound[i] =
        binding.is_companion(index)
            ? !binding.is_orphan(index)
            : code_name_of(files.tensors[i], binding.has_companions(index), logical).has_value();
  }
  return bound;
}

/// One logical tensor for each weight of a scheme that is not read; `taken` gets what they hold.
std::vector<LogicalTensor> bind_foreign(const input::ModelFiles& files, const QuantClaims& claims,
                                        const Binding& binding, std::vector<bool>& taken) {
  std::vector<LogicalTensor> logicals;
  for (ForeignWeight& weight : foreign_weights(files, claims, bound_tensors(files, binding))) {
    LogicalTensor& logical = logicals.emplace_back();
    logical.name = std::move(weight.name);
    logical.codes = weight.stored.front();
    logical.stored = std::move(weight.stored);
    logical.quantised = true;
    logical.shape_known = false;
    logical.encoding =
        unsupported_encoding(printable(weight.scheme), files.tensors[at(logical.codes)].type);
    logical.unsupported = fmt::format("scheme not supported: {}", logical.encoding.label);
    for (const std::int32_t i : logical.stored) {
      taken[at(i)] = true;
    }
  }
  return logicals;
}

/// The logical tensor that `index` is the codes of, or that it is by itself.
LogicalTensor bind_one(const input::ModelFiles& files, const QuantClaims& claims,
                       const SmallValues& values, const Binding& binding, std::int32_t index) {
  const StoredTensor& tensor = files.tensors[at(index)];
  const bool inverse = claims.block.has_value() || claims.method == "fp8";
  LogicalTensor logical = plain(tensor, index);
  if (binding.is_orphan(index)) {
    logical.orphan = true;
  } else if (files.format == input::ContainerFormat::kGguf) {
    bind_gguf_factor(files, binding, logical);
  } else if (const auto code_name =
                 code_name_of(tensor, binding.has_companions(index), logical.name)) {
    logical.quantised = true;
    apply_scheme(files, claims, values, *code_name, binding.companions_of(index, logical.stored),
                 logical);
    if (logical.name != tensor.name && binding.has_tensor(logical.name)) {
      logical.unsupported =
          fmt::format("ambiguous: {} is stored both plainly and packed", printable(logical.name));
    }
  } else if ((binding.has_float8_scales() || inverse) && is_float8(tensor.type) &&
             tensor.shape.size() >= 2) {
    logical.unsupported =
        fmt::format("scale missing: {}_scale{}", printable(tensor.name), inverse ? "_inv" : "");
  }
  return logical;
}

/// Sorts by name, equal names in the order given; in place, since a million of them are large.
void sort_by_name(std::vector<LogicalTensor>& logicals) {
  std::vector<std::string_view> names;
  names.reserve(logicals.size());
  for (const LogicalTensor& logical : logicals) {
    names.emplace_back(logical.name);
  }
  std::vector<std::uint32_t> from = name_order(names);
  for (std::uint32_t first = 0; first < from.size(); ++first) {
    if (from[first] == first) {
      continue;
    }
    // Once around the cycle that `first` is on; what is in place points to itself.
    LogicalTensor held = std::move(logicals[first]);
    std::uint32_t to = first;
    for (std::uint32_t next = from[to]; next != first; next = from[to]) {
      logicals[to] = std::move(logicals[next]);
      from[to] = to;
      to = next;
    }
    logicals[to] = std::move(held);
    from[to] = to;
  }
}

void warn_of_orphans(const std::vector<LogicalTensor>& logicals, std::vector<Warning>& warnings) {
  const auto is_orphan = [](const LogicalTensor& logical) { return logical.orphan; };
  const auto first = std::find_if(logicals.begin(), logicals.end(), is_orphan);
  if (first != logicals.end()) {
    warnings.push_back(
        {"W-COMPANION-ORPHAN",
         fmt::format("{} companions belong to weights that are not in the model, the first is {}",
                     std::count_if(first, logicals.end(), is_orphan), printable(first->name))});
  }
}

}  // namespace

std::vector<LogicalTensor> bind_companions(const input::ModelFiles& files,
                                           const QuantClaims& claims, std::int32_t threads,
                                           std::vector<Warning>& warnings) {
  const Binding binding(files);
  const SmallValues values(files, binding.small_tensors(), threads);
  std::vector<bool> taken(files.tensors.size(), false);
  // Foreign weights first, then the stored tensors that are codes, in their order: weights do not
  // depend on each other, so every one is put together where it will stand.
  std::vector<LogicalTensor> logicals = bind_foreign(files, claims, binding, taken);
  const std::size_t foreign = logicals.size();
  std::vector<std::int32_t> codes;
  for (std::size_t i = 0; i < files.tensors.size(); ++i) {
    const auto index = static_cast<std::int32_t>(i);
    if (!taken[i] && (!binding.is_companion(index) || binding.is_orphan(index))) {
      codes.push_back(index);
    }
  }
  logicals.resize(foreign + codes.size());
  const auto bind_piece = [&](std::size_t /*worker*/, std::size_t piece) {
    const std::size_t begin = piece * kLogicalTensorsPerPiece;
    const std::size_t end = std::min(codes.size(), begin + kLogicalTensorsPerPiece);
    for (std::size_t i = begin; i < end; ++i) {
      logicals[foreign + i] = bind_one(files, claims, values, binding, codes[i]);
    }
  };
  for_each_index(ceil_divide(codes.size(), kLogicalTensorsPerPiece), thread_count(0, threads),
                 bind_piece);
  sort_by_name(logicals);
  warn_of_orphans(logicals, warnings);
  return logicals;
}

}  // namespace vindex::model
