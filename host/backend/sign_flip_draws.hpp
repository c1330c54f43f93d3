// Owns what a back end keeps of every draw of the sign-flip null (metrics contract). A draw is
// reduced where it is found, so that a thousand of them take a hundred kilobytes and not a spectrum
// each; what they say beside the plain value is statistics/null/sign_flip_null.hpp's.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <vector>

namespace vindex {

/// The k of var_at_k.
inline constexpr std::array<std::int32_t, 9> kVarAtK = {1, 2, 4, 8, 16, 32, 64, 128, 256};

/// The metrics of one draw, by the definitions of the plain ones. NaN where they are not defined:
/// a zero matrix, a draw that did not converge, effective_rank and mp_outliers in fast mode.
struct SignFlipDraw {
  static constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  std::array<double, kVarAtK.size()> var_at_k;
  double stable_rank = kNaN;
  double effective_rank = kNaN;
  double mp_outliers = kNaN;
  SignFlipDraw() { var_at_k.fill(kNaN); }
};

/// All draws of one matrix.
struct SignFlipNull {
  std::vector<double> first_sigma;  ///< spectrum of draw 0 (fast: the top min(64, p))
  std::vector<SignFlipDraw> draws;  ///< in their order
};

}  // namespace vindex
