// Owns reading a dataset to its end, a few megabytes at a time, for callers that only ask that
// it can be read.
#pragma once

#include "hdf5.hpp"

#include <algorithm>
#include <cstdint>
#include <string>

namespace vindex::results {

/// Rows of `row_bytes` bytes that are read at once.
inline std::uint64_t rows_per_block(std::uint64_t row_bytes) {
  constexpr std::uint64_t kBlockBytes = 4U << 20U;
  return std::max<std::uint64_t>(1, kBlockBytes / std::max<std::uint64_t>(row_bytes, 1));
}

/// Reads all of `dataset`, which is `path` of `file` and no scalar. Errors: FormatError where a
/// part of it cannot be read.
void read_through(const h5::File& file, const h5::Dataset& dataset, const std::string& path);

}  // namespace vindex::results
