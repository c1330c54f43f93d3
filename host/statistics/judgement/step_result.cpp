// Owns the way from eigenvalues as solvers leave them to singular values.
#include "step_result.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

namespace vindex::statistics {

void take_eigenvalues(const RawSpectrum& raw, StepResult& found) {
  found.zero_rows = raw.zero_rows + raw.left_out;
  std::vector<double> values(raw.eigenvalues.begin(), raw.eigenvalues.end());
  const std::size_t count = values.size() + static_cast<std::size_t>(raw.left_out);
  if (raw.failed ||
      !std::all_of(values.begin(), values.end(), [](double x) { return std::isfinite(x); })) {
    return;
  }
  if (raw.zero_rows > 0) {
    // A zero row is an eigenvalue 0 that the solver returns as rounding noise: those nearest to 0
    // are taken out and put back as what they are.
    std::sort(values.begin(), values.end(),
              [](double a, double b) { return std::abs(a) > std::abs(b); });
    values.resize(values.size() - std::min(values.size(), static_cast<std::size_t>(raw.zero_rows)));
  }
  std::sort(values.begin(), values.end(), std::greater<>());
  found.negative = !values.empty() && values.back() < 0.0;
  // sqrt(2^e x) = 2^(e/2) sqrt(x) for even e.
  const int odd = raw.exponent % 2 != 0 ? 1 : 0;
  const int half = (raw.exponent - odd) / 2;
  for (const double value : values) {
    found.sigma.push_back(std::ldexp(std::sqrt(std::ldexp(std::max(value, 0.0), odd)), half));
  }
  found.sigma.resize(count, 0.0);
}

}  // namespace vindex::statistics
