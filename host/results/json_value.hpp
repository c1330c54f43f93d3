// Owns numbers as JSON values: JSON has neither NaN nor infinities, which become null.
#pragma once

#include <vindex/core/json_document.hpp>

#include <cmath>

namespace vindex::results {

inline Json json_value(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

}  // namespace vindex::results
