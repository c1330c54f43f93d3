// Owns finding stacks and lone experts by name, and turning edits to their orientation.
#include "experts.hpp"

#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace vindex::edit {
namespace {

constexpr std::string_view kGateUp = "gate_up_proj";
constexpr std::string_view kExperts = ".experts.";

/// b a turned.
LowRankEdit turned_edit(const LowRankEdit& edit) {
  if (edit.a.empty()) {  // of an outline
    return {edit.cols, edit.rows, edit.rank, {}, {}};
  }
  return {edit.cols, edit.rows, edit.rank, transposed_of<float>(edit.b, edit.rows, edit.rank),
          transposed_of<float>(edit.a, edit.rank, edit.cols)};
}

/// Rows [first, first + count) of b a.
LowRankEdit rows_of(const LowRankEdit& edit, std::int64_t first, std::int64_t count) {
  LowRankEdit out = {count, edit.cols, edit.rank, edit.a, {}};
  if (edit.a.empty()) {
    return out;
  }
  const auto begin = edit.b.begin() + first * edit.rank;
  out.b.assign(begin, begin + count * edit.rank);
  return out;
}

/// Which way PEFT takes a square stack of experts: whether its A is of the weight's outputs.
/// Nothing: the version is unknown and decides. Versions before 0.19.0 take the first side for the
/// inputs, 0.19.0 does so but for classes that say that they are stored in x out, from 0.19.1 on
/// the second side is the inputs' but for those classes.
std::optional<bool> is_turned(const ParameterOfExperts& parameter, bool transposed,
                              const std::string& architecture) {
  // transformers classes that say so and store in x out.
  const bool says_so = architecture == "gpt_oss" || architecture == "gpt-oss" ||
                       architecture == "aria" || architecture == "aria_text" ||
                       architecture == "openai_privacy_filter";
  const auto& version = parameter.peft_version;
  if (!version) {
    // 0.17 wrote no version; it and 0.21 agree on these alone.
    return transposed && says_so ? std::optional(false) : std::nullopt;
  }
  if (*version < std::array{0, 19, 0}) {
    return !transposed;
  }
  if (*version == std::array{0, 19, 0}) {
    return !transposed || says_so;
  }
  return transposed && !says_so;
}

}  // namespace

Experts::Experts(const model::ModelIndex& index) : index_(index) {
  for (const model::MatrixRecord& matrix : index.matrices) {
    if (matrix.table != model::ResultTable::kMatrix) {
      continue;
    }
    if (matrix.slice >= 0) {
      stacks_[matrix.tensor].push_back(&matrix);
    } else if (matrix.block == model::Block::kRoutedExpert && matrix.layer >= 0 &&
               matrix.expert >= 0) {
      alone_.emplace(Key{matrix.layer, matrix.role, matrix.expert}, &matrix);
    }
  }
}

const model::MatrixRecord* Experts::alone(std::int32_t layer, const std::string& role,
                                          std::int32_t expert) const {
  const auto found = alone_.find({layer, role, expert});
  return found == alone_.end() ? nullptr : found->second;
}

std::int64_t Experts::count(std::int32_t layer, const std::string& role) const {
  const auto begin = alone_.lower_bound({layer, role, 0});
  std::int64_t count = 0;
  for (auto at = begin;
       at != alone_.end() && std::get<0>(at->first) == layer && std::get<1>(at->first) == role;
       ++at) {
    ++count;
  }
  return count;
}

const Experts::Slices* Experts::stack_called(const std::string& name) const {
  if (const auto exact = stacks_.find(name); exact != stacks_.end()) {
    return &exact->second;
  }
  for (const auto& [stack, slices] : stacks_) {  // names may differ by leading parts
    if (stack.ends_with("." + name) || name.ends_with("." + stack)) {
      return &slices;
    }
  }
  return nullptr;
}

void Experts::orient(PatchEntry& entry, std::int64_t rows, std::int64_t cols,
                     bool transposed) const {
  const LowRankEdit& edit = entry.edit;
  if (edit.rows != cols || edit.cols != rows) {
    return;  // as it is, or of another shape, which is reported where it is applied
  }
  if (rows == cols) {
    const auto turn = is_turned(*entry.parameter, transposed, index_.shape.architecture);
    if (!turn) {
      throw ConfigurationError(
          "E-ADAPTER-PAIR",
          fmt::format("{}: the weight is square and adapter_config.json has no peft_version (or "
                      "none of a release): PEFT before 0.19.1 took its sides the other way "
                      "round; add the version that made the adapter",
                      excerpt(entry.key())));
    }
    if (!*turn) {
      return;
    }
  }
  entry.edit = turned_edit(edit);
}

std::vector<PatchEntry> Experts::fitted(PatchEntry entry) const {
  if (!entry.parameter) {
    return {std::move(entry)};
  }
  const ParameterOfExperts& parameter = *entry.parameter;
  const auto require_count = [&](std::int64_t experts) {
    if (experts != parameter.experts) {
      throw ConfigurationError(
          "E-PATCH-SHAPE",
          fmt::format("{}: the adapter is of {} experts, the model has {}: it is an adapter of "
                      "another model",
                      excerpt(entry.tensor), parameter.experts, experts));
    }
  };
  if (const Slices* slices = stack_called(entry.tensor)) {
    require_count(static_cast<std::int64_t>(slices->size()));
    orient(entry, slices->front()->rows, slices->front()->cols, slices->front()->transposed);
    return {std::move(entry)};
  }
  const bool both = parameter.role == kGateUp;
  const std::string first = both ? "gate_proj" : parameter.role;
  const model::MatrixRecord* upper = alone(parameter.layer, first, entry.slice);
  const model::MatrixRecord* lower =
      both ? alone(parameter.layer, "up_proj", entry.slice) : nullptr;
  if (count(parameter.layer, first) == 0) {
    return {std::move(entry)};  // the search for its matrix reports that there is none
  }
  require_count(count(parameter.layer, first));
  if (upper == nullptr || (both && (lower == nullptr || lower->cols != upper->cols))) {
    return {std::move(entry)};
  }
  const std::int64_t rows = upper->rows + (both ? lower->rows : 0);
  orient(entry, rows, upper->cols, false);
  if (entry.edit.rows != rows || entry.edit.cols != upper->cols) {
    throw ConfigurationError(
        "E-PATCH-SHAPE",
        fmt::format("{}: the adapter is of {} x {} weights, the model's experts make {} x {}: it "
                    "is an adapter of another model",
                    excerpt(entry.key()), entry.edit.rows, entry.edit.cols, rows, upper->cols));
  }
  std::vector<PatchEntry> out;
  std::int64_t row = 0;
  for (const model::MatrixRecord* matrix : {upper, lower}) {
    if (matrix != nullptr) {
      PatchEntry part;
      part.tensor = matrix->tensor;
      part.edit = rows_of(entry.edit, row, matrix->rows);
      row += matrix->rows;
      out.push_back(std::move(part));
    }
  }
  return out;
}

PlaceInStack Experts::place(const model::MatrixRecord& matrix) const {
  const std::string& name = matrix.tensor;
  const std::size_t at = name.find(kExperts);
  const std::size_t number = at == std::string::npos ? at : at + kExperts.size();
  const std::size_t leaf = number == std::string::npos ? number : name.find('.', number);
  const std::string end = leaf == std::string::npos ? std::string() : name.substr(leaf + 1);
  std::string holder = name.substr(0, at);
  const std::string& family = index_.shape.architecture;
  const bool usual = end == matrix.role + ".weight";
  constexpr std::string_view kSparse = ".block_sparse_moe";
  const bool renamed = (family == "mixtral" || family == "minimax") && holder.ends_with(kSparse) &&
                       (end == "w1.weight" || end == "w2.weight" || end == "w3.weight");
  const bool gate_or_up = matrix.role == "gate_proj" || matrix.role == "up_proj";
  if (!(gate_or_up || matrix.role == "down_proj") || !(usual || renamed)) {
    throw ConfigurationError(
        "E-LORA-EXPERTS",
        fmt::format("{}: transformers makes one parameter of all experts of a layer, and which one "
                    "is not known for this name; -o writes a model, --save-patch a patch",
                    model::matrix_name(matrix)));
  }
  if (renamed) {
    holder = holder.substr(0, holder.size() - kSparse.size()) + ".mlp";
  }
  PlaceInStack place;
  place.parameter = holder + ".experts." + (gate_or_up ? std::string(kGateUp) : matrix.role);
  place.experts = count(matrix.layer, matrix.role);
  place.rows = matrix.rows;
  if (gate_or_up) {
    const bool up = matrix.role == "up_proj";
    const model::MatrixRecord* other =
        alone(matrix.layer, up ? "gate_proj" : "up_proj", matrix.expert);
    if (other == nullptr || other->cols != matrix.cols) {
      throw ConfigurationError(
          "E-LORA-EXPERTS",
          fmt::format("{}: transformers makes one parameter of gate_proj and up_proj, and the "
                      "model has only one of them",
                      model::matrix_name(matrix)));
    }
    place.rows += other->rows;
    place.first_row = up ? other->rows : 0;
  }
  if (matrix.expert >= place.experts) {
    throw ConfigurationError("E-LORA-EXPERTS",
                             fmt::format("{}: the layer has {} experts, whose numbers leave some "
                                         "out; no parameter can hold them",
                                         model::matrix_name(matrix), place.experts));
  }
  return place;
}

}  // namespace vindex::edit
