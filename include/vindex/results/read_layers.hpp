// Owns the layer statistics of a published file: what a summary shows after a run.
#pragma once

#include <vindex/measure/layer_statistics.hpp>

#include <deque>
#include <string>
#include <vector>

namespace vindex::results {

/// The rows of /layer/, computed again from the rows of /matrix/ by the function that wrote them.
/// `groups[i].role` views a text of `roles`; `block` holds model::Block numbers. Move-only, because
/// of the views.
struct LayerTable {
  LayerTable() = default;
  LayerTable(LayerTable&&) = default;
  LayerTable& operator=(LayerTable&&) = default;
  LayerTable(const LayerTable&) = delete;
  LayerTable& operator=(const LayerTable&) = delete;

  std::string backend;  ///< root attribute
  std::deque<std::string> roles;
  std::vector<measure::LayerGroup> groups;
};

/// Errors: MissingInputError, FormatError as validate_file.
LayerTable read_layers(const std::string& path);

}  // namespace vindex::results
