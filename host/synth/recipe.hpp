// Owns the kinds of synthetic weight matrix: what is planted in each, and how it is drawn. Spectra
// of the kind `trained` are those that training leaves, by role. Planted spectra go between fast
// random orthogonal matrices: products of random sign changes and Hadamard transforms on two
// overlapping ranges whose length is a power of two. Applied to diag(s) from both sides they give a
// dense matrix with exactly the planted singular values, at n log n instead of n^3 work. Source:
// Ailon and Chazelle 2009 (fast Johnson-Lindenstrauss transform); Halko, Martinsson, Tropp 2011,
// 4.6.
#pragma once

#include <array>
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
  kTrained,     ///< U diag(s) V^T with the spectrum that training leaves (kTrainedRoles)
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

/// Writes U diag(sigma) V^T to `out`, rows x cols row-major without gaps: sigma has at most
/// min(rows, cols) values, U (rows x rows) and V (cols x cols) are orthogonal and follow from
/// `key`. Real is float or double; singular values are right to about 10 eps(Real) s_1.
template <typename Real>
void plant_spectrum(std::uint64_t key, std::span<const double> sigma, std::int64_t rows,
                    std::int64_t cols, Real* out);

extern template void plant_spectrum<float>(std::uint64_t, std::span<const double>, std::int64_t,
                                           std::int64_t, float*);
extern template void plant_spectrum<double>(std::uint64_t, std::span<const double>, std::int64_t,
                                            std::int64_t, double*);

/// What the experts of one role have in common. Ranges are those of the routed experts of a trained
/// mixture (bytes of the King James Bible, 8 experts in 3 layers, 256 x 256, float64 LAPACK).
struct TrainedRole {
  std::string_view projection;
  double exponent;          ///< of the heavy tail: s_i ~ i^-exponent over most of the values
  double min_gap, max_gap;  ///< s_1/s_2
  double min_condition, max_condition;  ///< s_1/s_p
};

inline constexpr std::array<TrainedRole, 3> kTrainedRoles = {
    {{"gate_proj", 1.0 / 3.0, 1.2, 3.6, 1.0e3, 4.5e4},
     {"up_proj", 1.0 / 3.0, 1.05, 1.4, 1.0e3, 2.6e4},
     {"down_proj", 0.4, 1.05, 2.1, 1.5e3, 2.3e4}}};

/// The recipe of a rows x cols matrix of `role` but for its key. `place` in [0, 1] is where it lies
/// in the role's ranges, both on a logarithmic scale: the experts with the strongest first value
/// are also the worst conditioned ones.
Recipe trained_recipe(const TrainedRole& role, std::int64_t rows, std::int64_t cols, double place);

/// s_i/s_1 of a kTrained recipe, all p of them, strictly descending from 1 to 1/condition. The
/// last 3 per cent (one at least) are the tail below: they fall as a power of their distance from
/// the end, so that the smallest spread furthest, as at the hard edge of a square matrix. Above
/// the tail, with r = (1 - sqrt g)/(1 + sqrt g) the edges of noise of that shape,
///     s_i/s_1 = (i/2)^-exponent L((i - 1/2)/p)/gap,   L(f) = 1 - (1 - max(r, 0.05)) f.
std::vector<double> trained_shape(const Recipe& recipe);

}  // namespace vindex::synth
