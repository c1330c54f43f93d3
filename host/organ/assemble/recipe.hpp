// Owns recipes (schema organ-recipe/1, docs/files/organ-schemas.md): which tensors of which models
// make a new one.
#pragma once

#include "model/pairing/pairing.hpp"
#include "model/selection/selection.hpp"
#include "organ/source/organ_class.hpp"

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace vindex::organ {

/// Which tensors of the result: all must hold.
struct RecipePart {
  std::set<OrganClass> classes;
  model::Selection selection;  ///< layers of the result, and names
  bool covers(const std::string& tensor) const;
};

/// Takes what it covers from a donor.
struct RecipeRule {
  std::string place;  ///< in the document, for messages
  std::size_t donor = 0;
  RecipePart part;
  model::LayerMap map;  ///< layers of the result : layers of the donor
  bool allow_missing = false;
};

/// "best_theta": of what it covers the donor's whose theta is the largest.
struct RecipePolicy {
  RecipePart part;
  std::vector<std::pair<std::size_t, std::string>> reports;  ///< donor, path
};

/// Blocks first..last of a donor.
struct RecipeLayers {
  std::size_t donor = 0;
  std::int32_t first = 0;
  std::int32_t last = 0;
};

struct Recipe {
  std::string name;                                         ///< of the result; empty: the host's
  std::vector<std::pair<std::string, std::string>> donors;  ///< name, path
  std::size_t host = 0;
  std::vector<RecipeLayers> layers;  ///< empty: the host's blocks
  std::optional<RecipePolicy> policy;
  std::vector<RecipeRule> rules;  ///< in order, later ones over earlier ones
};

/// Whether the file is JSON that says it is a recipe.
bool is_recipe(const std::string& path);

/// Relative paths are those of the recipe's folder. Errors: FormatError E-RECIPE naming the member,
/// UsageError of parse_classes(), parse_selection(), parse_layer_map().
Recipe read_recipe(const std::string& path);

}  // namespace vindex::organ
