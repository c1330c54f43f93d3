// Owns the table of formats and what each of them can serve.
#include "export.hpp"

#include "export_gate.hpp"
#include "export_input.hpp"
#include "export_phase.hpp"
#include "export_table.hpp"
#include "export_weightwatcher.hpp"

#include "core/files/output_target.hpp"
#include "core/files/path_kind.hpp"
#include "results/reading/table_rows.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <span>

namespace vindex::report {

namespace {

constexpr const char* kGateFiles[] = {"gate_vectors.bin", "gate_vectors_index.json"};

struct Format {
  const char* name;
  void (*write)(ExportInput& input, const std::string& target);  ///< null: phase-json
  std::span<const char* const> files = {};  ///< of a format that writes a folder
  bool any_table = false;                   ///< serves derived tables, and every kind of file
};

constexpr Format kFormats[] = {
    {.name = "csv", .write = export_csv, .any_table = true},
    {.name = "json", .write = export_json, .any_table = true},
    {.name = "phase-json", .write = nullptr},
    {.name = "weightwatcher", .write = export_weightwatcher},
    {.name = "gate-vectors", .write = export_gate_vectors, .files = kGateFiles},
};

/// Refuses what `format` cannot make of a file of `schema`.
void require_served(const Format& format, const std::string& path, results::FileSchema schema) {
  const bool is_phase = format.write == nullptr;
  const bool is_served = format.any_table || schema == results::FileSchema::kResults ||
                         (is_phase && (schema == results::FileSchema::kActivations ||
                                       schema == results::FileSchema::kCka ||
                                       schema == results::FileSchema::kRouting));
  if (!is_served) {
    throw UsageError("E-EXPORT-KIND",
                     fmt::format("{} is a file of `vindex {}`, of which there is no {}; csv and "
                                 "json are of every kind",
                                 printable(path), results::writing_command(schema), format.name));
  }
}

/// What whoever reads the export alone would not know: that the rows are a sample.
std::string left_out_text(const std::string& path, const ExportInput& input) {
  std::vector<const results::StoredRow*> rows;
  for (const results::StoredRow& row : input.rows) {
    rows.push_back(&row);
  }
  const std::int64_t all = results::drawn_from(rows);
  return all <= static_cast<std::int64_t>(rows.size())
             ? std::string()
             : fmt::format(
                   "note: {} is a sample, {} of {} matrices of the model: counts, sums and "
                   "extremes of what was written are not those of the whole",
                   printable(path), rows.size(), all);
}

}  // namespace

std::vector<std::string> export_formats() {
  std::vector<std::string> names;
  for (const Format& format : kFormats) {
    names.emplace_back(format.name);
  }
  return names;
}

void refuse_python_format(const std::string& format) {
  if (format == "parquet" || format == "arrow") {
    throw UsageError("E-EXPORT-PYTHON",
                     format +
                         " is written by the Python package, vindex-spectra[arrow] (pip install "
                         "'python/[arrow]' in a checkout), which also has this command");
  }
}

std::string export_file(const std::string& path, const std::string& format,
                        const std::string& target, bool replace, const std::string& table_text,
                        const PhaseInputs& others) {
  const auto table = model::table_of_name(table_text);
  if (!table) {
    throw UsageError("E-EXPORT-TABLE", "table '" + printable(table_text) +
                                           "' is unknown; there are matrix, imatrix, product");
  }
  for (const Format& candidate : kFormats) {
    if (format != candidate.name) {
      continue;
    }
    const bool is_phase = candidate.write == nullptr;
    const bool is_folder = is_phase || !candidate.files.empty();
    if (!is_phase && !others.empty()) {
      throw UsageError("E-EXPORT-INPUTS", "--activations, --cka and --routing go with phase-json");
    }
    if (is_folder && target == "-") {
      throw UsageError("E-EXPORT-TARGET",
                       format + " writes a folder; name one instead of standard output");
    }
    if (is_same_file(path, target)) {
      throw OutputError("E-OUT-INPUT", printable(target) + " is the file to be exported");
    }
    if (!candidate.any_table && results::is_derived(*table)) {
      throw UsageError("E-EXPORT-TABLE", format + " is of /matrix/; csv and json take --table");
    }
    if (!is_folder && target != "-") {
      require_free_target(target, replace);
    }
    for (const char* file : candidate.files) {
      require_free_target(target + "/" + file, replace);
    }
    ExportInput input(path, *table);
    if (!results::has_table(input.reader.file(), *table)) {
      throw UsageError("E-EXPORT-TABLE",
                       printable(path) + " has no rows of the table " + table_text);
    }
    if (input.reader.header().part) {
      throw UsageError("E-EXPORT-PART", printable(path) + " is a part of a run; merge it first");
    }
    require_served(candidate, path, input.reader.schema().id);
    if (is_phase) {
      export_phase_json(input, path, others, target, replace);
    } else {
      candidate.write(input, target);
    }
    return left_out_text(path, input);
  }
  refuse_python_format(format);
  throw UsageError("E-EXPORT-FORMAT",
                   fmt::format("export format '{}' is unknown; there are {}", printable(format),
                               fmt::join(export_formats(), ", ")));
}

}  // namespace vindex::report
