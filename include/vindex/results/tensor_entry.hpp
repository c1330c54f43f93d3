// Owns a row of /tensor/ before its statistics.
#pragma once

#include <vindex/measure/sample_angles.hpp>

#include <cstdint>
#include <string>

namespace vindex::results {

struct TensorEntry {
  std::string name, stored, block, role, shape, encoding, reason;
  std::int32_t layer = -1;
  std::int64_t count = 0;
  bool in_matrix = false;
  std::string organ_class = {};       ///< empty where the run took no samples
  measure::SampleAngles angles = {};  ///< of a 1-D tensor; count 0 where there are none
};

}  // namespace vindex::results
