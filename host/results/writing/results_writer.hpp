// Owns the writing of one results file or part of one into a Storage.
#pragma once

#include "results/hdf5/hdf5.hpp"
#include "results/hdf5/storage.hpp"
#include "results/rows/bulk_source.hpp"
#include "results/rows/stored_row.hpp"
#include "results/schema/file_description.hpp"

#include <cstdint>
#include <functional>
#include <span>
#include <string>

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

}  // namespace vindex::results
