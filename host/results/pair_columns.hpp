// Owns the columns of /pair/ (schema vindex-compare 1.0): those that a row shares with /matrix/ by
// other names, and its cells.
#pragma once

#include "columns.hpp"

#include <vector>

namespace vindex::results {

/// /pair/ in order, without the scale `pair`. `spectra`: with those of both sides' spectra.
std::vector<Column> pair_columns(bool spectra);

/// Whether `file` has them.
bool has_pair_spectra(const h5::File& file);

}  // namespace vindex::results
