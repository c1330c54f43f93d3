// Owns what every view of a results file says of it.
#pragma once

#include "results/schema/run_description.hpp"

#include <cstdint>
#include <string>

namespace vindex::results {

/// What a view says of its file.
struct ViewHead {
  FileSchema schema = FileSchema::kResults;
  std::string path, model, backend;
  std::string other_model;                         ///< B, where there is one
  std::string state;                               ///< as RunStatus::state
  std::int64_t rows_total = 0, rows_measured = 0;  ///< of the table that is shown
};

}  // namespace vindex::results
