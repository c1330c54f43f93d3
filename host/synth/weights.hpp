// Owns the kinds of synthetic weight matrix: what is planted in each, and how it is drawn.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace vindex::synth {

/// What a matrix (or vector) is made of. g = p/n, n = max(rows, cols), p = min(rows, cols).
enum class Kind : std::uint8_t {
  kGaussian,    ///< independent normals: the null itself
  kPowerlaw,    ///< U diag(s) V^T with s_i ~ i^-exponent: singular values known exactly
  kSpiked,      ///< normals plus `spikes` rank-one terms of strength spike_strength(k) sqrt(n)
  kRowscale,    ///< normals, each row times exp(row_spread z): structure without correlation
  kTrained,     ///< U diag(s) V^T with the spectrum that training leaves (trained.hpp)
  kNormWeight,  ///< a vector: 1 plus normals
  kBias,        ///< a vector: normals
};

std::string_view kind_name(Kind kind);

/// How one tensor is drawn. Entries have standard deviation `deviation` (kPowerlaw and kTrained:
/// root mean square; kSpiked and kRowscale: of the noise below).
struct Recipe {
  Kind kind = Kind::kGaussian;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  double deviation = 0.02;
  double exponent = 0.0;
  double gap = 1.0;        ///< kTrained: s_1/s_2 of a large matrix
  double condition = 1.0;  ///< kTrained: s_1/s_p
  int spikes = 0;
  double first_spike = 0.0;
  double row_spread = 0.0;
  std::uint64_t key = 0;

  /// Strength of spike k < spikes, in units of sqrt(n) deviation: falls evenly from first_spike to
  /// half of it. Above g^(1/4) a spike stands out of the noise.
  double spike_strength(int k) const;
};

/// Planted singular values of a kPowerlaw or kTrained recipe, all min(rows, cols) of them,
/// descending; empty for the other kinds. Scaled so that the Frobenius norm is deviation sqrt(rows
/// cols).
std::vector<double> planted_singular_values(const Recipe& recipe);

/// Where the spikes of a kSpiked recipe appear in the spectrum for large shapes:
/// deviation sqrt(n) sqrt((1 + t^2)(g + t^2))/t, t the strength; empty for the other kinds. Spikes
/// with t <= g^(1/4) are left out: they drown. Source: Benaych-Georges and Nadakuditi 2012.
std::vector<double> predicted_spike_values(const Recipe& recipe);

/// Draws the weights, row-major, rows x cols floats in `out`. Up to kExactWeights weights the
/// planted kinds are composed in float64, so that only the rounding to float32 (6e-8 relative)
/// stands between them and the values planted; larger ones in float32 (about 1e-6 s_1).
void draw_weights(const Recipe& recipe, std::span<float> out);

inline constexpr std::int64_t kExactWeights = std::int64_t{1} << 20;

}  // namespace vindex::synth
