// Owns array columns in a file: their scales and their datasets, written row by row from wherever
// the rows are.
#pragma once

#include "hdf5.hpp"
#include "results_writer.hpp"

namespace vindex::results {

/// The scales and array columns of `description`'s schema along `rows`; the scale of the rows of
/// the first table is there. A run description has the scales alone; a part one row per chunk,
/// unfiltered but for the checksum.
void write_arrays(h5::File& file, FileKind kind, const FileDescription& description,
                  std::span<const StoredRow* const> rows, BulkSource& bulk);

}  // namespace vindex::results
