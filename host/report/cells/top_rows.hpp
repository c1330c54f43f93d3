// Owns what the names of columns on a command line mean in a file whose rows are cells.
#pragma once

#include "cells_text.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace vindex::report {

/// A column that is one number of a row.
struct NamedCell {
  std::string name;
  std::size_t place = 0;  ///< in ShownRow::cells
  bool is_count = false;
};

/// Column `name`, and behind it what noise gives for it, or its deviation, as far as the file has
/// them. Empty where the file has no such column.
std::vector<NamedCell> cells_beside(const results::ShownCells& shown, const std::string& name);

}  // namespace vindex::report
