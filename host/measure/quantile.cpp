// Owns the quantile of a sample, by numpy's default rule (Hyndman and Fan 1996, definition 7).
#include <vindex/core/error.hpp>
#include <vindex/measure/metrics.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace vindex::measure {

double quantile(std::vector<double> values, double q) {
  expects(q >= 0.0 && q <= 1.0, "quantile: q in [0, 1]");
  std::erase_if(values, [](double value) { return std::isnan(value); });
  if (values.empty()) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  const double position = q * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const double part = position - static_cast<double>(below);
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(below),
                   values.end());
  const double low = values[below];
  if (part == 0.0) {
    return low;
  }
  const double high =
      *std::min_element(values.begin() + static_cast<std::ptrdiff_t>(below) + 1, values.end());
  if (low == high) {
    return low;  // also two equal infinities, whose difference is NaN
  }
  // numpy starts from the nearer end: the same bits then
  const double step = high - low;
  return part >= 0.5 ? high - step * (1.0 - part) : low + step * part;
}

}  // namespace vindex::measure
