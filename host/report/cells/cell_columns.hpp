// Owns the columns that are shown of a file whose rows are cells: those that it has, and what its
// kind says of them.
#pragma once

#include "results/view/summary.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace vindex::report {

/// A column that a file has, with as many numbers of a row behind each other.
struct PresentCell {
  std::string name;
  std::size_t place = 0;  ///< of the first one in ViewRow::cells
  std::size_t count = 0;
  bool is_count = false;
  bool is_list = false;  ///< along a scale, however many there are
};

/// In the order of the file.
std::vector<PresentCell> present_cells(const results::ResultsView& view);

/// What the kind of file says is to be shown; of a kind that says nothing every column that is one
/// number.
results::Summary summary_of(const results::ResultsView& view);

}  // namespace vindex::report
