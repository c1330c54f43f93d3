// Owns what is said of a difference, for people and for programs.
#pragma once

#include "model_difference.hpp"

#include <cstddef>
#include <string>

namespace vindex::organ {

struct DiffView {
  bool by_layer = false;  ///< rows of the summary: by block rather than by class
  std::size_t top = 10;   ///< tensors listed, the largest relative error first
  std::size_t width = 80;
};
std::string difference_text(const ModelDifference& difference, const DiffView& view);
/// One document of schema "organ-diff/1".
std::string difference_json(const ModelDifference& difference);

}  // namespace vindex::organ
