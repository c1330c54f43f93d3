// Owns what an export is made from.
#pragma once

#include "commands/spectra/spectra_cells.hpp"
#include "results/reading/results_reader.hpp"
#include "statistics/spectrum/var_at_k.hpp"

#include <string>
#include <vector>

namespace vindex::report {

/// A results file with its rows read.
struct ExportInput {
  results::ResultsReader reader;
  model::ResultTable table;
  std::vector<results::StoredRow> rows;
  /// Of any schema.
  explicit ExportInput(const std::string& path,
                       model::ResultTable which = model::ResultTable::kMatrix)
      : reader(path, std::nullopt), table(which), rows(reader.rows(0, which)) {}
};

/// var_at_64 of a row, and of noise of its shape.
inline double var_at_64(const results::StoredRow& row) {
  return commands::var_at_k_of(row, statistics::kPlaceOf64);
}
inline double var_at_64_null(const results::StoredRow& row) {
  return commands::var_at_k_null_of(row, statistics::kPlaceOf64);
}

}  // namespace vindex::report
