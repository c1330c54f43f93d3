// Owns the bulk of a table in a file: the groups spectra and vectors, one dataset per length, a
// chunk at a time, from wherever the rows are.
#pragma once

#include "results/hdf5/hdf5.hpp"
#include "results/rows/bulk_source.hpp"
#include "results/rows/stored_row.hpp"

#include <cstdint>
#include <span>
#include <string>

namespace vindex::results {

/// `part`: one row per chunk, unfiltered but for the checksum, since parts are written once and
/// read row by row when they are merged.
/// `rows` are those of one table, `prefix` is its bulk_prefix().
void write_spectra(h5::File& file, const std::string& prefix, bool part, bool fast,
                   std::span<const StoredRow* const> rows, BulkSource& bulk);
void write_vectors(h5::File& file, const std::string& prefix,
                   std::span<const StoredRow* const> rows, BulkSource& bulk);

/// Lower bound of the bytes that write_results() needs on disk: bulk data alone, as far as it does
/// not compress.
std::uint64_t min_bytes(std::span<const StoredRow* const> rows);

}  // namespace vindex::results
