// Owns truth.json: what was planted in every matrix and what its encoding cost (docs/synth.md).
#pragma once

#include "weights.hpp"

#include <vindex/decode/encode.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace vindex::synth {

/// One matrix (or slice of a stacked tensor) as written.
struct TruthRow {
  std::string tensor;  ///< logical name
  std::int64_t slice = -1;
  std::string encoding;
  Recipe recipe;
  decode::EncodingLoss loss;
  std::string part_of;    ///< drawn as part of this matrix, to which kind and values then belong
  std::int64_t rows = 0;  ///< as stored
  std::int64_t cols = 0;
};

/// The text of truth.json.
std::string truth_text(const std::string& spec, std::uint64_t seed,
                       const std::vector<TruthRow>& rows);

}  // namespace vindex::synth
