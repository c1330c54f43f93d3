// Owns the guess at what a selection that names nothing was meant to be.
#include "selection.hpp"

#include "core/text/nearest_name.hpp"
#include "model/products/product.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace vindex::model {

namespace {

/// The matrices that all options but some leave.
std::vector<const MatrixRecord*> matrices_of(const ModelIndex& index, const Selection& selection) {
  std::vector<const MatrixRecord*> matrices;
  for (const std::int64_t i : select(index, selection)) {
    matrices.push_back(&index.matrices[static_cast<std::size_t>(i)]);
  }
  return matrices;
}

bool names_nothing(const ModelIndex& index, const Selection& selection) {
  // Up to the first, which for most parts comes early: a list may have a thousand of them.
  return std::none_of(index.matrices.begin(), index.matrices.end(), [&](const MatrixRecord& m) {
    return wants(selection, m.layer, m.block, m.role) &&
           (selection.tensors == nullptr || name_matches(*selection.tensors, m.tensor));
  });
}

/// The layers of `matrices`.
std::string layers_of(const std::vector<const MatrixRecord*>& matrices) {
  std::set<std::int32_t> layers;
  for (const MatrixRecord* matrix : matrices) {
    layers.insert(matrix->layer);
  }
  return layers_text(layers);
}

/// The names that `name_of` gives, in the file's order, each once.
template <typename NameOf>
std::vector<std::string> distinct(const std::vector<const MatrixRecord*>& matrices,
                                  NameOf name_of) {
  std::vector<std::string> names;
  std::set<std::string> seen;
  for (const MatrixRecord* matrix : matrices) {
    std::string name = name_of(*matrix);
    if (seen.insert(name).second) {
      names.push_back(std::move(name));
    }
  }
  return names;
}

std::vector<std::string> roles_of(const std::vector<const MatrixRecord*>& matrices) {
  return distinct(matrices, [](const MatrixRecord& matrix) { return matrix.role; });
}

std::vector<std::string> blocks_of(const std::vector<const MatrixRecord*>& matrices) {
  return distinct(matrices, [](const MatrixRecord& m) { return std::string(block_name(m.block)); });
}

std::string with_guess(const std::string& wanted, const std::vector<std::string>& names) {
  const std::string guess = did_you_mean(wanted, names);
  return guess.empty() ? guess : guess + " ";
}

std::string count_text(std::size_t count, const char* one, const char* many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

/// What is to be said of an expression that is no matrix's whole name.
std::string tensors_trouble(const ModelIndex& index, const Selection& selection) {
  const std::string& text = selection.tensors_text;
  for (const TensorRecord& tensor : index.tensors) {
    if (!tensor.in_matrix && name_matches(*selection.tensors, tensor.name)) {
      return fmt::format("--tensors '{}' names {}, which is not a matrix: {}", excerpt(text),
                         excerpt(tensor.name), printable(tensor.reason));
    }
  }
  const std::string begun =
      fmt::format("--tensors '{}' is the whole name of none of the {}", excerpt(text),
                  count_text(index.tensors.size(), "tensor", "tensors"));
  // An alternative binds less than what would be put beside it.
  const bool has_choice = text.find('|') != std::string::npos;
  const std::string wider = has_choice ? ".*(" + text + ").*" : ".*" + text + ".*";
  try {
    const std::size_t count = select(index, parse_selection("", "", "", wider)).size();
    if (count > 0) {
      return fmt::format("{}; --tensors '{}' takes {}", begun, excerpt(wider),
                         count_text(count, "matrix", "matrices"));
    }
  } catch (const UsageError&) {
    // Too long with what was put around it: no advice then.
  }
  std::vector<std::string> names;
  for (const TensorRecord& tensor : index.tensors) {
    if (tensor.in_matrix) {
      names.push_back(tensor.name);
    }
  }
  const std::string guess = did_you_mean(text, names);
  return begun + "; " +
         (guess.empty() ? std::string("`vindex inspect --tensors` lists them") : guess);
}

}  // namespace

std::string layers_text(const std::set<std::int32_t>& layers) {
  constexpr std::size_t kMaxRanges = 24;
  std::vector<std::string> ranges;
  for (auto at = layers.upper_bound(-1); at != layers.end();) {
    const std::int32_t first = *at;
    std::int32_t last = first;
    while (++at != layers.end() && *at == last + 1) {
      last = *at;
    }
    ranges.push_back(first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last));
  }
  if (ranges.size() > kMaxRanges) {
    const std::string last = ranges.back();
    ranges.resize(kMaxRanges);
    ranges.insert(ranges.end(), {"...", last});
  }
  const std::string text = fmt::format("{}", fmt::join(ranges, ","));
  if (text.empty()) {
    return "-1 (no layer) only";
  }
  return layers.contains(-1) ? text + " and -1 (no layer)" : text;
}

std::vector<std::string> unmatched_parts(const ModelIndex& index, const Selection& selection) {
  const std::vector<const MatrixRecord*> all = matrices_of(index, {});
  std::vector<std::string> troubles;
  for (const auto& range : selection.layers) {
    if (names_nothing(index, {.layers = {range}})) {
      troubles.push_back(fmt::format("--layers {}: no matrix is there; the model has layers {}",
                                     range.first == range.second
                                         ? fmt::format("{}", range.first)
                                         : fmt::format("{}-{}", range.first, range.second),
                                     layers_of(all)));
    }
  }
  for (const Block block : selection.blocks) {
    if (names_nothing(index, {.blocks = {block}})) {
      troubles.push_back(fmt::format("--blocks {}: the model has none; its blocks are {}",
                                     block_name(block), name_list(blocks_of(all))));
    }
  }
  for (const std::string& role : selection.roles) {
    if (names_nothing(index, {.roles = {role}})) {
      const std::vector<std::string> roles = roles_of(all);
      troubles.push_back(fmt::format(
          "--roles {}: the model has none; {}its roles are {}", excerpt(role),
          is_head_role(role) ? "--heads adds those; " : with_guess(role, roles), name_list(roles)));
    }
  }
  if (selection.tensors != nullptr && names_nothing(index, {.tensors = selection.tensors})) {
    troubles.push_back(tensors_trouble(index, selection));
  }
  return troubles;
}

std::string empty_selection_text(const ModelIndex& index, const Selection& selection) {
  const std::vector<std::string> parts = unmatched_parts(index, selection);
  if (!parts.empty()) {
    return parts.front();
  }
  // Each option names something: which of them keeps the others from doing so?
  const auto without = [&](auto member) {
    Selection others = selection;
    (others.*member) = {};
    return matrices_of(index, others);
  };
  if (const auto left = without(&Selection::layers); !left.empty()) {
    return fmt::format(
        "no matrix is in these --layers and fits the other options; those that fit "
        "them are in layers {}",
        layers_of(left));
  }
  if (const auto left = without(&Selection::roles); !left.empty()) {
    return fmt::format(
        "no matrix has these --roles and fits the other options; those that fit "
        "them have the roles {}",
        name_list(roles_of(left)));
  }
  if (const auto left = without(&Selection::blocks); !left.empty()) {
    return fmt::format(
        "no matrix is in these --blocks and fits the other options; those that fit "
        "them are in the blocks {}",
        name_list(blocks_of(left)));
  }
  if (const auto left = without(&Selection::tensors); !left.empty()) {
    return fmt::format(
        "no matrix has a name as --tensors says and fits the other options; those "
        "that fit them are {}, the first {}",
        count_text(left.size(), "matrix", "matrices"), excerpt(left.front()->tensor));
  }
  return "--layers, --blocks, --roles and --tensors name no matrix together; with fewer of them "
         "there would be some";
}

}  // namespace vindex::model
