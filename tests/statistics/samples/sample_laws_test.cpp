// Whether what a sample states of a layer holds, by the law of its figures: the table of
// docs/measuring/sampling.md with fewer draws.
#include "sample_laws.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>

namespace vindex::statistics {
namespace {

TEST(SampleLawsTest, IntervalsHoldWhateverTheLaw) {
  constexpr int kLayers = 10;
  constexpr int kSamples = 100;
  const double least = 0.95 - 3.0 * std::sqrt(0.95 * 0.05 / (kLayers * kSamples));
  double least_by_student = 1.0;
  for (const SampleLaw& law : sample_laws()) {
    for (const auto& [n, experts] : {std::pair(2, 384), {4, 8}, {16, 64}, {64, 384}}) {
      SCOPED_TRACE(std::string(law.name) + ", " + std::to_string(n) + " of " +
                   std::to_string(experts));
      const LawCoverage found = law_coverage(law, n, experts, kLayers, kSamples);
      EXPECT_GE(found.mean, least);
      least_by_student = std::min(least_by_student, found.student);
      for (std::size_t q = 0; q < found.quantile.size(); ++q) {
        EXPECT_GE(found.quantile[q], least) << q;
        if (!std::isnan(found.error_ratio[q])) {
          EXPECT_GE(found.error_ratio[q], 0.8) << q;
        }
      }
    }
  }
  EXPECT_LT(least_by_student, 0.3) << "what the laws are for";
}

}  // namespace
}  // namespace vindex::statistics
