// Owns the reading of a results file or part: header first (schema, version), then rows, then
// spectra and arrays on demand. Whatever a file claims is checked before it is believed.
#pragma once

#include "array_reader.hpp"
#include "spectra_reader.hpp"

#include "results/hdf5/hdf5.hpp"
#include "results/hdf5/storage.hpp"
#include "results/rows/stored_row.hpp"
#include "results/schema/file_description.hpp"
#include "results/schema/schema.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace vindex::results {

struct FileHeader {
  FileSchema schema = FileSchema::kResults;
  std::string schema_version;
  std::string status;
  bool part = false;  ///< a part or a run description, not a published file
};

/// One open file. Not thread-safe.
class ResultsReader {
 public:
  /// `wanted`: the schema that the caller understands; nothing: any of ours. Errors:
  /// MissingInputError, SystemError; FormatError E-RESULTS-* where it is no results file,
  /// E-RESULTS-KIND where it is of another schema; FormatError E-RESULTS-VERSION for a newer major
  /// version.
  explicit ResultsReader(const std::string& path,
                         std::optional<FileSchema> wanted = FileSchema::kResults);
  ResultsReader(const ResultsReader&) = delete;
  ResultsReader& operator=(const ResultsReader&) = delete;

  const FileHeader& header() const { return header_; }
  const Schema& schema() const { return schema_of(header_.schema); }
  const h5::File& file() const { return file_; }
  /// All but `tensors` and the texts of /run/, which only whole files and run descriptions have.
  FileDescription description() const;
  Fingerprint fingerprint() const;
  /// Every row of `table` with its metrics; sigma_count and vector_count say what bulk there is,
  /// and `bulk.row` is the row's number over all tables. `source` becomes bulk.source. None where
  /// the file has no such table.
  std::vector<StoredRow> rows(std::int32_t source,
                              model::ResultTable table = model::ResultTable::kMatrix);
  /// The same with nothing filled but what identifies a row and how it ended.
  std::vector<StoredRow> identities(std::int32_t source, model::ResultTable table);
  /// The rows of every table, one after the other.
  std::vector<StoredRow> all_rows(std::int32_t source);
  SpectraReader& spectra() { return spectra_; }
  ArrayReader& arrays() { return arrays_; }

 private:
  std::vector<StoredRow> read_rows(std::int32_t source, model::ResultTable table, bool whole);

  std::unique_ptr<FileStorage> storage_;
  h5::File file_;
  FileHeader header_;
  SpectraReader spectra_;
  ArrayReader arrays_;
};

}  // namespace vindex::results
