// Owns the ways to what of a row may weigh megabytes: one open file, or a few of many.
#pragma once

#include "results_reader.hpp"

#include "results/rows/bulk_source.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace vindex::results {

/// One open file as the source of what its rows do not hold themselves.
class ReaderSource final : public BulkSource {
 public:
  explicit ReaderSource(ResultsReader& reader) : reader_(reader) {}
  void sigma(const StoredRow& row, std::span<double> out) override {
    reader_.spectra().read_sigma(row.bulk.row, out);
  }
  SingularVectors vectors(const StoredRow& row) override {
    return reader_.spectra().read_vectors(row.bulk.row);
  }
  ArrayCell array(const StoredRow& row, std::size_t number) override {
    return reader_.arrays().read(row.bulk.row, number);
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
