// Owns the matrices that sigma_error is held against: how their lines lie to each other, by how
// their singular values are spread. Seeded.
#pragma once

#include "tests/support/known_spectra.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace vindex::test {

/// How a matrix is made of singular values (or scales) s.
enum class LineKind {
  kBothTurned,         ///< U diag(s) V^T, both random orthogonal: what the model was made for
  kOrthogonalColumns,  ///< U diag(s): on the long side too, a Gram that is diagonal but for
                       ///< rounding
  kOrthogonalRows,     ///< diag(s) V^T
  kScaledRows,         ///< noise whose short side is scaled by s
  kScaledColumns,      ///< noise whose long side is scaled by s (repeated)
  kBlocks,             ///< 32 lines each turned among themselves: U diag(s) diag(V_1, V_2, ...)
};

struct ErrorCase {
  std::string kind;     ///< row of the table
  std::string profile;  ///< of s
  std::int64_t rows = 0, cols = 0;
  LineKind lines = LineKind::kBothTurned;
  std::vector<double> scales;  ///< min(rows, cols)
  std::uint64_t seed = 0;
  FloatMatrix make() const;
};

/// Every kind with every profile and order of s at a short side of p, tall, wide and square.
std::vector<ErrorCase> error_cases(std::int64_t p);

}  // namespace vindex::test
