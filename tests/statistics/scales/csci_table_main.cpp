// Prints the table of docs/measuring/metrics.md: csci of independent weights beside its nulls, by
// their law.
// Usage: csci_table [WEIGHTS [SEQUENCES]].
#include "csci_laws.hpp"

#include <cstdio>
#include <cstdlib>

int main(int count, char** arguments) {
  using namespace vindex::statistics;
  const std::int64_t weights = count > 1 ? std::atoll(arguments[1]) : 120'000;
  const int sequences = count > 2 ? std::atoi(arguments[2]) : 100;
  std::puts(
      "| weights | z by the closed form | by the sign flip | by permutation | sd of z of z_modulus "
      "|");
  std::puts("|---|---|---|---|---|");
  for (const CsciLaw& law : csci_laws()) {
    const CsciScores found = csci_scores(law, weights, sequences);
    std::printf("| %s | %+.1f +- %.1f | %+.2f +- %.1f | %+.2f +- %.1f | %.2f |\n", law.name,
                found.by_normal, found.by_normal_sd, found.by_signs, found.by_signs_sd,
                found.by_permuted, found.by_permuted_sd, found.slope_sd);
  }
  return 0;
}
