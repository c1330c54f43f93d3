// Owns the softmax of a row of scores that come block by block, as vector code. (Milakov and
// Gimelshein 2018.)
#pragma once

#include <cstdint>
#include <limits>

namespace vindex::cpu {

/// What the scores of a row have been so far: their largest, and the sum of e^(score - largest).
struct SoftmaxState {
  float largest = -std::numeric_limits<float>::infinity();
  double sum = 0.0;
};

/// Scores become e^(score - largest), `state` grows by them. `soft_cap` > 0: scores are cap
/// tanh(score / cap) first. Returns the factor that makes up for a new largest: what was computed
/// with earlier scores is multiplied by it.
float take_scores(float* scores, std::int64_t count, float soft_cap, SoftmaxState& state);

/// values *= factor.
void scale(float* values, std::int64_t count, float factor);

}  // namespace vindex::cpu
