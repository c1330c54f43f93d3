// Owns the list of these columns.
#include "sample_columns.hpp"

#include <array>
#include <cmath>
#include <limits>

namespace vindex::commands {

namespace {

using statistics::SampleAngles;

double of_size(const SampleAngles& angles, double (*null)(std::int64_t)) {
  return angles.count >= statistics::kMinSampled ? null(angles.count)
                                                 : std::numeric_limits<double>::quiet_NaN();
}

constexpr std::array<SampleColumn, 6> kSampleColumns = {{
    {"theta_seed", "shape of the weights' histogram, degrees: a heuristic, no measure of quality",
     [](const SampleAngles& angles) { return angles.theta_seed; },
     [](SampleAngles& angles, double value) { angles.theta_seed = value; }},
    {"theta_seed_null", "theta_seed of as many independent normal numbers",
     [](const SampleAngles& angles) { return of_size(angles, statistics::theta_seed_null); }},
    {"seed_entropy", "entropy of the histogram of 256 bins over its maximum",
     [](const SampleAngles& angles) { return angles.entropy; },
     [](SampleAngles& angles, double value) { angles.entropy = value; }},
    {"seed_kurtosis", "excess kurtosis of the sample",
     [](const SampleAngles& angles) { return angles.kurtosis; },
     [](SampleAngles& angles, double value) { angles.kurtosis = value; }},
    {"seed_cv", "standard deviation over mean of the spacings of the sorted sample",
     [](const SampleAngles& angles) { return angles.spacing_cv; },
     [](SampleAngles& angles, double value) { angles.spacing_cv = value; }},
    {"seed_count", "weights in the sample",
     [](const SampleAngles& angles) { return static_cast<double>(angles.count); },
     [](SampleAngles& angles, double value) { angles.count = static_cast<std::int64_t>(value); },
     true},
}};

constexpr std::array<SampleColumn, 2> kQq = {{
    {"theta_qq", "angle to the normal law by the sorted weights, degrees",
     [](const SampleAngles& angles) { return angles.theta_qq; },
     [](SampleAngles& angles, double value) { angles.theta_qq = value; }},
    {"theta_qq_null", "theta_qq of as many independent normal numbers",
     [](const SampleAngles& angles) { return of_size(angles, statistics::theta_qq_null); }},
}};

using statistics::ScaleFigures;

constexpr std::array<ScaleColumn, 9> kScaleColumns = {{
    {"z_modulus", "slope over log2 scale of -log2 of the mean squared Haar coefficient",
     &ScaleFigures::z_modulus},
    {"z_modulus_null", "mean of z_modulus for as many independent normal numbers",
     &ScaleFigures::z_modulus_null},
    {"z_modulus_null_sd", "standard deviation of z_modulus for them, of equal variance",
     &ScaleFigures::z_modulus_null_sd},
    {"csci", "correlation of the sizes of Haar coefficients with their parents', 0 for noise",
     &ScaleFigures::csci},
    {"csci_null_sd",
     "standard deviation of csci for as many independent normal numbers, for them alone",
     &ScaleFigures::csci_null_sd},
    {"z_modulus_signflip",
     "z_modulus of the same magnitudes with random signs, with a sign-flip null",
     &ScaleFigures::z_modulus_signflip},
    {"csci_signflip", "csci of the same magnitudes with random signs, with a sign-flip null",
     &ScaleFigures::csci_signflip},
    {"csci_permuted",
     "csci of the same values in no order, mean over 8 permutations, with a sign-flip null",
     &ScaleFigures::csci_permuted},
    {"csci_permuted_sd", "its standard deviation over them", &ScaleFigures::csci_permuted_sd},
}};

}  // namespace

std::span<const SampleColumn> sample_columns() { return kSampleColumns; }
std::span<const SampleColumn> qq_columns() { return kQq; }
std::span<const ScaleColumn> scale_columns() { return kScaleColumns; }

}  // namespace vindex::commands
