// Owns what the Gram matrix of some experts' flattened weights says: cosines, cosines with the mean
// expert removed, and the spectrum along the axis of experts, each beside its null.
#pragma once

#include "cosine_summary.hpp"

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace vindex::statistics {

struct ExpertCosines {
  std::vector<float> cosine;          ///< E x E, NaN where a side does not count or is zero
  std::vector<float> cosine_centred;  ///< the same less the mean of the experts that count
  std::vector<double> norm;           ///< E
  std::vector<double> counted_norms;  ///< of those that count, in their order
  CosineSummary plain, centred;
  double mean_share = std::numeric_limits<double>::quiet_NaN();       ///< |mean|^2 / mean of |w|^2
  double mean_share_null = std::numeric_limits<double>::quiet_NaN();  ///< 1/E
  /// Of the experts that count, in their order, centred twice: n x n. Empty below two of them.
  std::vector<double> centred_gram;
  std::int64_t counted = 0;
  std::string reason;  ///< which are NaN beyond those that do not count; "; " between them
};

/// `gram`, E x E sums of products of `length` weights; counts[i] false where expert i has none. One
/// whose norm is not finite does not count either and is named in the reason.
///
/// Cancellation: the centred Gram is a difference of sums of the size of the norms, so its error is
/// theirs (InnerProducts: typically eps32 of the norms' product). A centred norm below 1e-3 of the
/// norms' root mean square, whose relative error may reach a tenth, makes NaN of that expert's
/// centred cosines.
ExpertCosines expert_cosines(std::span<const double> gram, const std::vector<bool>& counts,
                             double length);

/// The spectrum of a centred Gram.
struct ExpertSpectrum {
  std::vector<double> values;       ///< E, largest first, NaN beyond those that count
  std::vector<double> null_values;  ///< of independent experts of these norms, of the same trace
  double rank_90 = std::numeric_limits<double>::quiet_NaN();
  double rank_90_null = std::numeric_limits<double>::quiet_NaN();
  double rank_90_null_sd = std::numeric_limits<double>::quiet_NaN();
  double effective_rank = std::numeric_limits<double>::quiet_NaN();
  double effective_rank_null = std::numeric_limits<double>::quiet_NaN();
  double effective_rank_null_sd = std::numeric_limits<double>::quiet_NaN();
  std::string reason;
};

/// Over draws of the directions, exact for any number and length.
struct ExpertNulls {
  std::int64_t draws = 0;      ///< 0: there are no two experts, or all of them are zeros
  std::vector<double> shares;  ///< of the spectrum in its sum, largest first, means; one per expert
  DrawnStatistic rank_90, effective_rank;
  DrawnStatistic cosine_mean, cosine_max;  ///< centred
};

/// `ascending`: eigenvalues of centred_gram; those below 0 by rounding count as 0. `nulls` of no
/// draws leave the nulls NaN.
ExpertSpectrum expert_spectrum(std::span<const double> ascending, std::int64_t experts,
                               std::int64_t length, const ExpertNulls& nulls);

}  // namespace vindex::statistics
