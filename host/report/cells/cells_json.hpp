// Owns the JSON document of a file whose rows are cells.
#pragma once

#include "top_rows.hpp"

#include <string>

namespace vindex::report {

/// Everything but arrays of two dimensions as one JSON document, schema
/// "vindex-<kind>-summary/1", null for NaN.
std::string cells_json(const results::ResultsView& view, const TopRows& top = {});

}  // namespace vindex::report
