// Owns the beginning of draws and vectors: what is not measured has neither.
#include "further_results.hpp"

namespace vindex::statistics {

bool begin_draws(const MeasureOptions& options, const SignFlipCollector& collector,
                 MatrixReport& report) {
  if (options.sign_flip_draws == 0 || report.status != MatrixStatus::kMeasured) {
    return false;
  }
  report.sign_flip.emplace();
  if (report.moments.max_abs() > 0.0) {
    return true;
  }
  for (std::int32_t draw = 0; draw < options.sign_flip_draws; ++draw) {
    collector.add(report.sigma, 0.0, *report.sign_flip);
  }
  return false;
}

bool begin_vectors(const MeasureOptions& options, MatrixReport& report) {
  if (options.vectors == 0 || report.status != MatrixStatus::kMeasured) {
    return false;
  }
  report.vectors = SingularVectors{};
  return report.moments.max_abs() > 0.0;
}

}  // namespace vindex::statistics
