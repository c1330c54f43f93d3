// Owns the spectra and singular vectors of a results file, found by the row that they belong to and
// read on demand.
#pragma once

#include "results/hdf5/hdf5.hpp"
#include "results/schema/schema.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace vindex::results {

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

/// Rows are counted over all tables of the file. Not thread-safe.
class SpectraReader {
 public:
  /// Of `file`, which outlives this. Nothing is read yet.
  SpectraReader(const h5::File& file, const Schema& schema) : file_(file), schema_(schema) {}

  /// Singular values, and vectors, that are stored of `row`. Errors: FormatError.
  std::int64_t sigma_count(std::int64_t row);
  std::int32_t vector_count(std::int64_t row);
  void read_sigma(std::int64_t row, std::span<double> out);
  /// The spectra of /spectra/ behind `place`, as they lie in the file, a few megabytes of one
  /// length; moves `place` behind them. False where there are no more.
  bool read_block(SpectraPlace& place, SpectraBlock& out);
  SingularVectors read_vectors(std::int64_t row);

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
  void index();
  std::vector<std::int64_t> members_of(const std::string& group, model::ResultTable table) const;

  const h5::File& file_;
  const Schema& schema_;
  bool indexed_ = false;
  std::vector<Group> groups_;
  std::unordered_map<std::int64_t, Place> spectra_;
  std::unordered_map<std::int64_t, Place> vectors_;
};

}  // namespace vindex::results
