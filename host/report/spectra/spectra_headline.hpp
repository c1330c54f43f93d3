// Owns the lines above a table of spectra.
#pragma once

#include "spectra_view.hpp"

#include <string>

namespace vindex::report {

/// Path, state, counts; other tables that have rows; the metric.
std::string spectra_headline(const SpectraView& view);

}  // namespace vindex::report
