// Owns a row of a file of spectra as it is shown: one metric of one matrix.
#pragma once

#include "results/rows/result_row.hpp"

#include <cstdint>
#include <limits>
#include <string>

namespace vindex::report {

/// One metric of one matrix. NaN: not defined, or not in the file.
struct MetricNumbers {
  double value = std::numeric_limits<double>::quiet_NaN();
  double null = std::numeric_limits<double>::quiet_NaN();
  double sign_flip = std::numeric_limits<double>::quiet_NaN();  ///< one draw, or the mean of many
  double sign_flip_std = std::numeric_limits<double>::quiet_NaN();
  double sign_flip_z = std::numeric_limits<double>::quiet_NaN();
  double sign_flip_p = std::numeric_limits<double>::quiet_NaN();  ///< since schema 1.3
  double difference() const { return value - null; }
  double ratio() const { return value / null; }
};

/// A selected matrix, measured or not.
struct MatrixView : results::RowIdentity {
  bool measured = false;
  bool is_tried = false;  ///< it has an outcome
  std::string reason;
  std::int32_t k = 0;  ///< of var_at_k; 0: another metric, or no informative k
  MetricNumbers numbers;
  double sort_by = std::numeric_limits<double>::quiet_NaN();
};

}  // namespace vindex::report
