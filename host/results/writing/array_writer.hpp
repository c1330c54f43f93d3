// Owns the array columns of a table in a file, written row by row from wherever the rows are.
#pragma once

#include "results/hdf5/hdf5.hpp"
#include "results/rows/bulk_source.hpp"
#include "results/rows/stored_row.hpp"
#include "results/schema/file_description.hpp"

#include <span>

namespace vindex::results {

/// The scales of the array columns that `description`'s schema has; the scale of the rows of the
/// first table is there. `bare`: numbers alone, for files that nobody browses.
void write_array_scales(h5::File& file, bool bare, const FileDescription& description,
                        std::span<const StoredRow* const> rows);

/// The array columns along `rows`. `part`: one row per chunk, unfiltered but for the checksum.
void write_arrays(h5::File& file, bool part, const FileDescription& description,
                  std::span<const StoredRow* const> rows, BulkSource& bulk);

}  // namespace vindex::results
