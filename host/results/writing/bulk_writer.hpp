// Owns the bulk of a table in a file: the groups spectra and vectors, one dataset per length, a
// chunk at a time, and array columns with their scales, written row by row from wherever the rows
// are.
#pragma once

#include "results_writer.hpp"

#include "results/hdf5/hdf5.hpp"

namespace vindex::results {

/// Rows per chunk of a dataset with `row_bytes` per row: about half a mebibyte, so that a chunk
/// fits the library's default cache of one.
std::uint64_t rows_per_chunk(std::uint64_t row_bytes);

/// `part`: one row per chunk, unfiltered but for the checksum, since parts are written once and
/// read row by row when they are merged.
/// `rows` are those of one table, `prefix` is its bulk_prefix().
void write_spectra(h5::File& file, const std::string& prefix, bool part, bool fast,
                   std::span<const StoredRow* const> rows, BulkSource& bulk);
void write_vectors(h5::File& file, const std::string& prefix,
                   std::span<const StoredRow* const> rows, BulkSource& bulk);

/// The scales and array columns of `description`'s schema along `rows`; the scale of the rows of
/// the first table is there. A run description has the scales alone; a part one row per chunk,
/// unfiltered but for the checksum.
void write_arrays(h5::File& file, FileExtent kind, const FileDescription& description,
                  std::span<const StoredRow* const> rows, BulkSource& bulk);

}  // namespace vindex::results
