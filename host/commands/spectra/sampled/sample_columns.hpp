// Owns the columns of what a sample of weights says (schema 1.2) and of what all of them say across
// scales (1.4): the same names in /matrix/ and in /tensor/.
#pragma once

#include "statistics/scales/scale_figures.hpp"
#include "statistics/spectrum/sample_angles.hpp"

#include <cstddef>
#include <span>

namespace vindex::commands {

struct SampleColumn {
  const char* name = "";
  const char* long_name = "";
  double (*value)(const statistics::SampleAngles&) = nullptr;
  void (*set)(statistics::SampleAngles&, double) = nullptr;  ///< null: it follows from the count
  bool is_count = false;                                     ///< int32, -1 where there is none
};

/// theta_seed, its null, what it is made of, and the size of the sample.
std::span<const SampleColumn> sample_columns();
/// theta_qq and its null: of 1-D tensors.
std::span<const SampleColumn> qq_columns();

struct ScaleColumn {
  const char* name = "";
  const char* long_name = "";
  double statistics::ScaleFigures::*member = nullptr;
};

/// z_modulus and csci, each behind it what noise gives; then (schema 1.5) csci of permuted weights.
std::span<const ScaleColumn> scale_columns();
inline constexpr std::size_t kOlderScales = 7;  ///< of them, those of schema 1.4

}  // namespace vindex::commands
