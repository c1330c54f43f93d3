// Owns the digits of values, differences, ratios and errors.
#include "metric_text.hpp"

#include <fmt/format.h>

#include <cmath>

namespace vindex::report {

std::string digits_text(double value, bool is_count) {
  const double size = std::abs(value);
  // From 999.95 on four digits are whole ones.
  const bool is_whole = size < 1e7 && (size >= 999.95 || (is_count && value == std::floor(value)));
  return is_whole ? fmt::format("{:.0f}", value) : fmt::format("{:#.4g}", value);
}

std::string value_text(const ViewedMetric& metric, double value) {
  return std::isnan(value) ? std::string(kNone)
                           : (metric.is_share ? fmt::format("{:.4f}", value)
                                              : digits_text(value, metric.is_count));
}

std::string difference_text(const ViewedMetric& metric, double value) {
  if (std::isnan(value)) {
    return kNone;
  }
  if (metric.is_share) {
    return std::abs(value) < 0.00005 ? "0.0000" : fmt::format("{:+.4f}", value);
  }
  return (value > 0.0 ? "+" : "") + digits_text(value, metric.is_count);
}

std::string ratio_text(double value) {
  if (std::isnan(value)) {
    return kNone;
  }
  if (std::abs(value) < 0.001 && value != 0.0) {
    return fmt::format("{:.1e}", value);
  }
  return std::abs(value) < 100.0 ? fmt::format("{:.3f}", value) : digits_text(value, false);
}

std::string z_text(double value) {
  return std::isnan(value) ? std::string(kNone) : fmt::format("{:+.1f}", value);
}

std::string error_text(double value) {
  return std::isnan(value) ? std::string(kNone)
         : value == 0.0    ? std::string("0")
         : value < 9.95    ? fmt::format("{:#.2g}", value)
                           : fmt::format("{:.0f}", value);
}

std::string heading(const ViewedMetric& metric, const char* otherwise) {
  constexpr std::size_t kLongest = 8;
  const std::string label = metric.label();
  return label.size() <= kLongest ? label : otherwise;
}

}  // namespace vindex::report
