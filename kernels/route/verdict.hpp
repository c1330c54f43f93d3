// Owns what a self-test finds: the worst error and what was allowed.
#pragma once

#include <cmath>
#include <cstdio>
#include <span>
#include <string>

namespace vindex::kernels {

/// Worst error and the bound it is held against; several make a verdict.
class Verdict {
 public:
  void compare(std::span<const double> got, std::span<const double> wanted, double scale,
               double tolerance) {
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const double error = std::abs(got[i] - wanted[i]) / scale;
      if (!(error <= tolerance)) {  // also where it is not a number
        passed_ = false;
      }
      if (!(error / tolerance <= worst_ / allowed_)) {
        worst_ = error;
        allowed_ = tolerance;
      }
    }
  }
  /// Tells more of a verdict that is bad anyway.
  void explain(const std::string& why) { broken_ += passed_ ? "" : "; " + why; }
  void require(bool holds, const char* what) {
    if (!holds) {
      passed_ = false;
      broken_ += std::string("; ") + what;
    }
  }
  bool passed() const { return passed_; }
  std::string detail() const {
    char text[96];
    std::snprintf(text, sizeof text, "error %.2g of %.2g allowed", worst_, allowed_);
    return text + broken_;
  }

 private:
  bool passed_ = true;
  double worst_ = 0.0;
  double allowed_ = 1.0;
  std::string broken_;
};

}  // namespace vindex::kernels
