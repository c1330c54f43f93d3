// Owns what `show` prints of spectra, for people as tables of numbers with four digits and for
// programs as JSON: one description of each table for both.
#pragma once

#include "metric_groups.hpp"
#include "spectra_view.hpp"

#include <cstddef>
#include <limits>
#include <string>

namespace vindex::report {

/// The groups as a table of at most `width` columns. Where there are more than `max_lines`, those
/// of routed experts, routers and dense MLPs are shown and a last line says how many are not.
std::string groups_text(const SpectraView& view, std::size_t width,
                        std::size_t max_lines = std::numeric_limits<std::size_t>::max());
std::string experts_text(const SpectraView& view, std::size_t width);
std::string top_text(const SpectraView& view, std::size_t count, bool ascending, std::size_t width);

/// The same as one JSON document, schema "vindex-show/1", numbers unrounded, null for NaN.
std::string groups_json(const SpectraView& view);
std::string experts_json(const SpectraView& view);
std::string top_json(const SpectraView& view, std::size_t count, bool ascending);

}  // namespace vindex::report
