// Owns the reading of a results file or part: header first (schema, version), then rows, then bulk
// on demand. Whatever a file claims is checked before it is believed.
#pragma once

#include "results/hdf5/hdf5.hpp"
#include "results/hdf5/storage.hpp"
#include "results/rows/stored_row.hpp"
#include "results/schema/file_description.hpp"
#include "results/schema/schema.hpp"
#include "results/writing/results_writer.hpp"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace vindex::results {

/// All of dataset `path`, row-major. Errors: FormatError where it has another shape.
template <typename T>
std::vector<T> read_numbers(const h5::File& file, const std::string& path,
                            const h5::Shape& wanted) {
  const h5::Dataset dataset = file.open_dataset(path);
  if (dataset.shape() != wanted) {
    throw FormatError("E-RESULTS-SCHEMA", printable(file.label() + " " + path), "wrong shape");
  }
  std::uint64_t count = 1;
  for (const std::uint64_t side : wanted) {
    count *= side;
  }
  std::vector<T> values(count);
  dataset.read<T>(0, wanted[0], values);
  return values;
}

struct FileHeader {
  FileSchema schema = FileSchema::kResults;
  std::string schema_version;
  std::string status;
  bool part = false;  ///< a part or a run description, not a published file
};

/// Where a walk over all spectra of a file is; at first before the first one.
struct SpectraPlace {
  std::size_t group = 0;  ///< of /spectra/, by name: one for each length
  std::uint64_t row = 0;  ///< in the group
};
struct SpectraBlock {
  std::size_t group = 0;
  std::uint64_t width = 0;         ///< values of each spectrum
  std::vector<std::int64_t> rows;  ///< of /matrix/
  std::vector<double> sigma;       ///< rows.size() x width
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

  const FileHeader& header() const { return header_; }
  const Schema& schema() const { return schema_of(header_.schema); }
  const h5::File& file() const { return file_; }
  std::uint64_t file_bytes() const { return storage_->size(); }
  /// All but `tensors` and the texts of /run/, which only whole files and run descriptions have.
  FileDescription description() const;
  Fingerprint fingerprint() const;
  bool has_table(model::ResultTable table) const;
  /// Rows that `table` claims, as many as may be in the file. Errors: FormatError.
  std::int64_t row_count(model::ResultTable table) const;
  /// Number of the first row of `table` over all tables.
  std::int64_t first_row(model::ResultTable table) const;
  /// Every row of `table` with its metrics; sigma_count and vector_count say what bulk there is,
  /// and `bulk.row` is the row's number over all tables. `source` becomes bulk.source. None where
  /// the file has no such table.
  std::vector<StoredRow> rows(std::int32_t source,
                              model::ResultTable table = model::ResultTable::kMatrix);
  /// The same with nothing filled but what identifies a row and how it ended.
  std::vector<StoredRow> identities(std::int32_t source, model::ResultTable table);
  /// The rows of every table, one after the other.
  std::vector<StoredRow> all_rows(std::int32_t source);
  void read_sigma(std::int64_t row, std::span<double> out);
  /// The spectra of /spectra/ behind `place`, as they lie in the file, a few megabytes of one
  /// length; moves `place` behind them. False where there are no more.
  bool read_spectra(SpectraPlace& place, SpectraBlock& out);
  SingularVectors read_vectors(std::int64_t row);
  /// Array `number` of CellTable::arrays in row `row`, which is of no run description; empty where
  /// it is an optional one that the file does not hold.
  ArrayCell read_array(std::int64_t row, std::size_t number);

 private:
  struct Place {
    std::size_t group = 0;
    std::uint64_t row = 0;
  };
  struct Group {
    std::string path;
    std::uint64_t width = 0;
    std::optional<h5::Dataset> data;                  ///< opened on first use
    std::map<std::string, h5::Dataset> vectors = {};  ///< likewise, by name
  };
  void describe_cells(FileDescription& out) const;
  void index_bulk();
  std::vector<StoredRow> read_rows(std::int32_t source, model::ResultTable table, bool whole);
  std::vector<std::int64_t> members_of(const std::string& group, model::ResultTable table) const;

  std::unique_ptr<FileStorage> storage_;
  h5::File file_;
  FileHeader header_;
  bool indexed_ = false;
  std::vector<Group> groups_;
  std::unordered_map<std::int64_t, Place> spectra_;
  std::unordered_map<std::int64_t, Place> vectors_;
  std::optional<FileDescription> cells_;  ///< describe_cells(), once it is needed
  std::map<std::size_t, h5::Dataset> arrays_;
};

/// One open file as the source of what its rows do not hold themselves.
class ReaderSource final : public BulkSource {
 public:
  explicit ReaderSource(ResultsReader& reader) : reader_(reader) {}
  void sigma(const StoredRow& row, std::span<double> out) override {
    reader_.read_sigma(row.bulk.row, out);
  }
  SingularVectors vectors(const StoredRow& row) override {
    return reader_.read_vectors(row.bulk.row);
  }
  ArrayCell array(const StoredRow& row, std::size_t number) override {
    return reader_.read_array(row.bulk.row, number);
  }

 private:
  ResultsReader& reader_;
};

/// Files that rows come from, by number, a few open at a time.
class SourcePool final : public BulkSource {
 public:
  /// `wanted` as ResultsReader's.
  explicit SourcePool(std::optional<FileSchema> wanted = FileSchema::kResults) : wanted_(wanted) {}
  std::int32_t add(const std::string& path);
  std::vector<std::string> paths() const;
  const std::string& path(std::int32_t source) const {
    return entries_.at(static_cast<std::size_t>(source)).path;
  }
  /// The file of that number, opened if need be; valid until the next call.
  ResultsReader& reader(std::int32_t source);
  void close_all();
  void sigma(const StoredRow& row, std::span<double> out) override;
  SingularVectors vectors(const StoredRow& row) override;
  ArrayCell array(const StoredRow& row, std::size_t number) override;

 private:
  struct Entry {
    std::string path;
    std::unique_ptr<ResultsReader> reader;
    std::uint64_t last_use = 0;
  };
  std::optional<FileSchema> wanted_;
  std::vector<Entry> entries_;
  std::uint64_t clock_ = 0;
};

}  // namespace vindex::results
