// Owns the arrays that settings name, and what sides they must have.
#pragma once

#include "targets.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace vindex::edit {

struct EditArrays {
  std::optional<std::vector<double>> direction;  ///< of a file
  std::optional<Matrix> keys, values;            ///< columns; of `insert` one
  std::optional<Matrix> covariance, probe;
};

/// Reads them, each into at most `max_bytes`, once the headers of all fit all `targets`: a file of
/// other sides is refused unread, whatever its size. Errors: those of NpyMatrix; FormatError
/// E-EDIT-SHAPE.
EditArrays read_arrays(const EditSettings& settings, const Records& targets,
                       std::uint64_t max_bytes);

}  // namespace vindex::edit
