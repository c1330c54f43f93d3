// Owns the writing of one results file or part of one into a
// Storage.
#pragma once

#include "results/hdf5/hdf5.hpp"
#include "results/hdf5/storage.hpp"
#include "results/rows/bulk_source.hpp"
#include "results/rows/stored_row.hpp"
#include "results/schema/file_description.hpp"

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace vindex::results {

enum class FileExtent : std::uint8_t {
  kWhole,        ///< OUT.h5
  kPart,         ///< rows only: no tables beside them, no /run/
  kDescription,  ///< what merging needs beside parts: every row `skipped`, Schema::beside, /run/
};

/// Writes what a kind of file holds beside all tables. It runs before these are written, so that
/// the numbers of `rows` may be its findings.
using WriteAhead = std::function<void(h5::File& file)>;

/// Writes `rows` (in the file's row order, all tables) and everything derived from them. Memory:
/// the columns of /matrix/ and one chunk of a spectrum. Errors: those of `bulk` and of `storage`;
/// Error (internal) if the library fails otherwise.
void write_results(Storage& storage, const std::string& label, FileExtent kind,
                   const FileDescription& description, std::span<const StoredRow* const> rows,
                   BulkSource& bulk, const WriteAhead& ahead = {});

StatusCounts count_statuses(std::span<const StoredRow* const> rows);

/// "p2048", "p2048_top64": the group of a row's spectrum under its table's spectra.
std::string spectrum_group(const StoredRow& row, bool fast);

/// Lower bound of the bytes that write_results() needs on disk: bulk data alone, as far as it does
/// not compress.
std::uint64_t min_bytes(std::span<const StoredRow* const> rows);

}  // namespace vindex::results
