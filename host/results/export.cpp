#include "export_formats.hpp"
#include "result_tables.hpp"
#include "results_file.hpp"

#include <vindex/core/error.hpp>
#include <vindex/core/output_target.hpp>
#include <vindex/results/export.hpp>

#include <span>

namespace vindex::results {

namespace {

constexpr const char* kPhaseFiles[] = {"phase1_moe_svd.json", "phase1_moe_svd_agg.json",
                                       "phase2_router_svd.json", "moe_config.json"};
constexpr const char* kGateFiles[] = {"gate_vectors.bin", "gate_vectors_index.json"};

struct Format {
  const char* name;
  void (*write)(ExportInput& input, const std::string& target);
  std::span<const char* const> files;  ///< of a format that writes a folder
  bool any_table = false;              ///< serves derived tables too
};

constexpr Format kFormats[] = {
    {"csv", export_csv, {}, true},
    {"json", export_json, {}, true},
    {"weightwatcher", export_weightwatcher, {}},
    {"phase-json", export_phase_json, kPhaseFiles},
    {"gate-vectors", export_gate_vectors, kGateFiles},
};

}  // namespace

void export_file(const std::string& path, const std::string& format, const std::string& target,
                 bool replace, const std::string& table_text) {
  const auto table = model::table_of_name(table_text);
  if (!table) {
    throw UsageError("E-EXPORT-TABLE", "table '" + printable(table_text) +
                                           "' is unknown; there are matrix, imatrix, product");
  }
  for (const Format& candidate : kFormats) {
    if (format != candidate.name) {
      continue;
    }
    if (!candidate.files.empty() && target == "-") {
      throw UsageError("E-EXPORT-TARGET",
                       format + " writes a folder; name one instead of standard output");
    }
    if (same_file(path, target)) {
      throw OutputError("E-OUT-INPUT", printable(target) + " is the file to be exported");
    }
    if (!candidate.any_table && is_derived(*table)) {
      throw UsageError("E-EXPORT-TABLE", format + " is of /matrix/; csv and json take --table");
    }
    if (candidate.files.empty() && target != "-") {
      require_free_target(target, replace);
    }
    for (const char* file : candidate.files) {
      require_free_target(target + "/" + file, replace);
    }
    ExportInput input(path, *table);
    if (!input.reader.has_table(*table)) {
      throw UsageError("E-EXPORT-TABLE",
                       printable(path) + " has no rows of the table " + table_text);
    }
    if (input.reader.header().part) {
      throw UsageError("E-EXPORT-PART", printable(path) + " is a part of a run; merge it first");
    }
    candidate.write(input, target);
    return;
  }
  throw UsageError("E-EXPORT-FORMAT", "export format '" + printable(format) +
                                          "' is unknown; there are csv, json, phase-json, "
                                          "weightwatcher, gate-vectors");
}

}  // namespace vindex::results
