// Owns the list of export formats; each is one file beside this one.
#pragma once

#include "export.hpp"
#include "results_reader.hpp"
#include "spectra_cells.hpp"

#include <string>
#include <vector>

namespace vindex::results {

/// A results file with its rows read.
struct ExportInput {
  ResultsReader reader;
  model::ResultTable table;
  std::vector<StoredRow> rows;
  /// Of any schema.
  explicit ExportInput(const std::string& path,
                       model::ResultTable which = model::ResultTable::kMatrix)
      : reader(path, std::nullopt), table(which), rows(reader.rows(0, which)) {}
};

/// var_at_64 of a row, and of noise of its shape.
inline double var_at_64(const StoredRow& row) { return var_at_k_of(row, 6); }
inline double var_at_64_null(const StoredRow& row) { return var_at_k_null_of(row, 6); }

void export_csv(ExportInput& input, const std::string& target);
void export_json(ExportInput& input, const std::string& target);
void export_weightwatcher(ExportInput& input, const std::string& target);
/// `input` at `path`; checks what is in the way before it writes.
void export_phase_json(ExportInput& input, const std::string& path, const PhaseInputs& others,
                       const std::string& folder, bool replace);
void export_gate_vectors(ExportInput& input, const std::string& folder);

}  // namespace vindex::results
