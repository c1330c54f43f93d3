// Owns independent weights of laws that csci is not 0 for, and how far it lies from each of its
// nulls.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace vindex::statistics {

struct CsciLaw {
  const char* name = "";
  std::vector<float> (*weights)(std::int64_t count, std::uint64_t draw) = nullptr;
  bool is_in_rows = false;  ///< rows of their own norms: there is an order, of sizes
};
std::span<const CsciLaw> csci_laws();

/// Over sequences: mean and standard deviation of csci less each null, in its standard deviations.
struct CsciScores {
  double by_normal = 0.0, by_normal_sd = 0.0;      ///< 0 +- csci_null_sd
  double by_signs = 0.0, by_signs_sd = 0.0;        ///< csci_signflip +- 1.4 csci_null_sd
  double by_permuted = 0.0, by_permuted_sd = 0.0;  ///< csci_permuted +- its sd sqrt(1 + 1/8)
  double slope_sd = 0.0;                           ///< of z_modulus by its null
};
CsciScores csci_scores(const CsciLaw& law, std::int64_t count, int sequences);

}  // namespace vindex::statistics
