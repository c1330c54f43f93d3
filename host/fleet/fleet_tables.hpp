// Owns the tables that stand several models side by side: their parts, what they claim of
// attention, the classes of the published cards, the laws of scale. Markdown, terminal and JSON
// take them from here.
#pragma once

#include "measure_fleet.hpp"
#include "scale_law.hpp"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace vindex::fleet {

/// Cells are texts; `rows` begins with the heading.
struct FleetTable {
  std::string title;
  std::vector<std::vector<std::string>> rows;
  std::vector<std::size_t> texts;  ///< columns of words, the others are numbers
  std::string note;                ///< a paragraph
  bool is_short = false;           ///< for the terminal, too
};

/// Those of at least two measured models; of one, none.
std::vector<FleetTable> fleet_tables(std::span<const FleetModel> models);

/// The measured ones.
std::vector<const ModelMeasure*> measured_models(std::span<const FleetModel> models);

/// The published cards call a model dissolved whose var@64 lies below this, whatever its shapes.
inline constexpr double kCardThreshold = 0.15;
/// "dissolved", "not dissolved"; empty for NaN.
std::string card_class(double var64);

}  // namespace vindex::fleet
