// Owns the union of rows from a selection, an earlier results file and parts: one row per matrix,
// the best outcome of each.
#pragma once

#include "parts_folder.hpp"
#include "results_reader.hpp"
#include "stored_row.hpp"

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace vindex::results {

class GatheredRows {
 public:
  /// Adds a matrix without an outcome; its number. A matrix already there keeps its outcome.
  std::size_t add(StoredRow row);
  /// Adds every row of file `path`, whose fingerprint the caller has checked. Where a matrix is
  /// there already the better outcome stays, of equal ones the later given. Errors:
  /// ConfigurationError where shapes of one matrix differ.
  void add_file(const std::string& path);
  StoredRow& operator[](std::size_t i) { return rows_[i]; }
  std::size_t size() const { return rows_.size(); }
  SourcePool& pool() { return pool_; }
  /// Rows in the file's order; pointers hold until the next add.
  std::vector<const StoredRow*> sorted() const;
  /// Says that the bulk of every row is in results file `path`, which holds them all in order.
  void relocate(const std::string& path);

 private:
  std::vector<StoredRow> rows_;
  std::unordered_map<std::string, std::size_t> by_key_;
  SourcePool pool_{std::nullopt};
};

/// Of the files of a run at `path` the one that says most of it.
const std::string& describing_file(const std::string& path, const RunFiles& run);
/// "running" (parts only), "complete" or "partial", of all of its rows.
std::string state_of(const RunFiles& run, std::span<const StoredRow* const> rows);

/// Adds what is on disk of a run: descriptions, the published file, parts. Errors:
/// ConfigurationError E-RESUME-FINGERPRINT where they are of different runs; UsageError
/// E-RESULTS-PART where `path` is a part itself; FormatError E-RESULTS-KIND where the run is of
/// another schema than `wanted`. Gives the schema.
FileSchema gather_run(const std::string& path, const RunFiles& run, GatheredRows& gathered,
                      std::optional<FileSchema> wanted = FileSchema::kResults);

}  // namespace vindex::results
