// Owns what is printed of a comparison: its groups as tables, and as a JSON document.
#pragma once

#include "comparison_summary.hpp"

#include <cstddef>
#include <string>

namespace vindex::commands {

/// The groups as a table of at most `width` columns, and the matrices without a partner.
std::string comparison_text(const ComparisonSummary& compared, std::size_t width);
/// The same as one JSON document, schema "vindex-compare-summary/1", null for NaN.
std::string comparison_json(const ComparisonSummary& compared);

}  // namespace vindex::commands
