// Owns the list of export formats; each is one file beside this one.
#pragma once

#include "export.hpp"

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

void export_csv(ExportInput& input, const std::string& target);
void export_json(ExportInput& input, const std::string& target);
void export_weightwatcher(ExportInput& input, const std::string& target);
/// `input` at `path`; checks what is in the way before it writes.
void export_phase_json(ExportInput& input, const std::string& path, const PhaseInputs& others,
                       const std::string& folder, bool replace);
void export_gate_vectors(ExportInput& input, const std::string& folder);

}  // namespace vindex::report
