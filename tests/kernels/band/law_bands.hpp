// Owns the bands that tests of the stages behind a reduction start from: of Gram matrices with
// eigenvectors in random directions and the singular values of a law, as a reduction in float32
// leaves them, and what the stages' errors are held against.
#pragma once

#include "statistics/judgement/spectrum_error.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace vindex::test {

struct LawBand {
  std::string law;
  std::int64_t order = 0;
  std::vector<double> elements;  ///< float32 numbers, LAPACK's band storage with 32 subdiagonals
  std::vector<double> squares;   ///< its eigenvalues by LAPACK in float64, descending
  /// Of a 7/2 order x order matrix with that Gram, as the device finds them.
  statistics::GramNorms norms;
  std::int64_t long_side() const { return order * 7 / 2; }
};

/// "noise C" (of the aspect that makes the condition C), "power C", "geometric C", "arithmetic C"
/// (condition C), "spike" (one value ten times all others, which are noise), "trained" (a power law
/// above noise), "clusters" (64 equal values above equal ones), "lines" (nearly diagonal, values as
/// "geometric 30" in any order: what lines of unequal norm leave).
LawBand band_of_law(const std::string& law, std::int64_t order);

}  // namespace vindex::test
