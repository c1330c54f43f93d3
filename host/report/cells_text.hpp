// Owns what `vindex show` and the ends of `vindex experts`, `cka`, `activations` and `routing`
// report from their files: rows of numbers beside what noise gives, as text and as JSON.
#pragma once

#include "results/shown_cells.hpp"

#include <cstddef>
#include <string>

namespace vindex::report {

/// What the kind of file says is to be shown.
results::Summary summary_of(const results::ShownCells& shown);

/// "OUT.h5: 12 of 12 layers measured (complete), MODEL".
std::string cells_headline(const results::ShownCells& shown);
/// The rows as a table of at most `width` columns, values beside what noise gives.
std::string cells_text(const results::ShownCells& shown, std::size_t width);
/// Everything but arrays of two dimensions as one JSON document, schema
/// "vindex-<kind>-summary/1", null for NaN.
std::string cells_json(const results::ShownCells& shown);

}  // namespace vindex::report
