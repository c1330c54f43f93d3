// Owns what the Gram matrix of some experts' flattened weights says: cosines, cosines with the mean
// expert removed, and the spectrum along the axis of experts, each beside its null; and the law of
// the largest of many independent normal numbers, which one of the nulls is.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace vindex::statistics {

struct ExpertNulls;

struct LargestNormal {
  double mean = 0.0, deviation = 1.0;
};

/// Mean and standard deviation of the largest of `count` (at least 1) independent standard normal
/// numbers, by quadrature to 1e-10: with t = count x (-ln of the distribution function at the
/// largest), which is exponential, both are integrals of exp(-t). 0 and 1 for one number.
LargestNormal largest_normal(double count);

/// Off-diagonal cosines of a group.
struct CosineSummary {
  double mean = std::numeric_limits<double>::quiet_NaN();
  double max = std::numeric_limits<double>::quiet_NaN();
  std::int64_t expert = -1, other = -1;  ///< of `max`, expert < other; -1: there is none
  /// Of independent noise, mean and standard deviation: of the cosine of one pair, of the mean over
  /// all pairs, of the largest of them.
  double null = std::numeric_limits<double>::quiet_NaN();
  double null_sd = std::numeric_limits<double>::quiet_NaN();
  double null_mean = std::numeric_limits<double>::quiet_NaN();
  double null_mean_sd = std::numeric_limits<double>::quiet_NaN();
  double null_most = std::numeric_limits<double>::quiet_NaN();
  double null_most_sd = std::numeric_limits<double>::quiet_NaN();
};

/// The nulls of cosines of `experts` experts of `length` weights of independent noise each,
/// whatever their norms. One pair: 0 and 1/sqrt(length). The mean over E(E-1)/2 pairs, which are
/// uncorrelated: 0 and sqrt(2/(E(E-1) length)). The largest: of as many independent normal numbers
/// (largest_normal()). NaN below two experts. Of centred ones: expert_nulls.hpp.
void fill_plain_nulls(std::int64_t experts, double length, CosineSummary& summary);

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

/// `ascending`: eigenvalues of centred_gram; those below 0 by rounding count as 0. `nulls` of no
/// draws leave the nulls NaN.
ExpertSpectrum expert_spectrum(std::span<const double> ascending, std::int64_t experts,
                               std::int64_t length, const ExpertNulls& nulls);

}  // namespace vindex::statistics
