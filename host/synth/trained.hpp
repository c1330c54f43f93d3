// Owns the spectra that training leaves, by role: what a matrix of the kind `trained` is planted
// with.
#pragma once

#include "weights.hpp"

#include <array>
#include <string_view>
#include <vector>

namespace vindex::synth {

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
/// it
///     s_i/s_1 = (i/2)^-exponent L((i - 1/2)/p)/gap,   L(f) = 1 - (1 - max(r, 0.05)) f,
/// r = (1 - sqrt g)/(1 + sqrt g) the edges of noise of that shape.
std::vector<double> trained_shape(const Recipe& recipe);

}  // namespace vindex::synth
