// Owns how the numbers of a metric are printed: four digits, "-" where there is none.
#pragma once

#include "viewed_metric.hpp"

#include <string>

namespace vindex::report {

inline constexpr const char* kNone = "-";

/// Four digits; large ones in full, and whole ones where `is_count`.
std::string digits_text(double value, bool is_count);
std::string value_text(const ViewedMetric& metric, double value);
/// With its sign.
std::string difference_text(const ViewedMetric& metric, double value);
std::string ratio_text(double value);
std::string z_text(double value);
/// Two digits are what an error is known to.
std::string error_text(double value);
/// The value's heading: the metric where it is short, since the first line has it in full.
std::string heading(const ViewedMetric& metric, const char* otherwise);

}  // namespace vindex::report
