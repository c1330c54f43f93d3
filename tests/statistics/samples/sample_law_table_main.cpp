// Prints the table of docs/measuring/sampling.md: what a sample states of layers, by the law of
// their figures.
// Usage: sample_law_table [LAYERS [SAMPLES]].
#include "sample_laws.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace {

void print_ratio(double ratio) {
  if (std::isnan(ratio)) {
    std::printf(" none |");
  } else {
    std::printf(" %.2f |", ratio);
  }
}

}  // namespace

int main(int count, char** arguments) {
  using namespace vindex::statistics;
  const int layers = count > 1 ? std::atoi(arguments[1]) : 40;
  const int samples = count > 2 ? std::atoi(arguments[2]) : 250;
  std::puts(
      "| figures | sample | mean holds | Student's would | its width over Student's | quantiles "
      "hold, least | `+-` of the median over its error | quartiles, least |");
  std::puts("|---|---|---|---|---|---|---|---|");
  for (const SampleLaw& law : sample_laws()) {
    for (const auto& [n, experts] : {std::pair(2, 384), {4, 8}, {16, 64}, {16, 384}, {64, 384}}) {
      const LawCoverage found = law_coverage(law, n, experts, layers, samples);
      std::printf("| %s | %d of %d | %.3f | %.3f | %.1f | %.3f |", law.name, n, experts, found.mean,
                  found.student, found.width,
                  *std::min_element(found.quantile.begin(), found.quantile.end()));
      print_ratio(found.error_ratio[1]);
      print_ratio(std::min(found.error_ratio[0], found.error_ratio[2]));
      std::puts("");
    }
  }
  return 0;
}
