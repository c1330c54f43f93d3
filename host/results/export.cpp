#include "export_formats.hpp"

#include <vindex/core/error.hpp>
#include <vindex/results/export.hpp>

#include <sys/stat.h>

namespace vindex::results {

namespace {

struct Format {
  const char* name;
  void (*write)(ExportInput& input, const std::string& target);
  bool folder;
};

constexpr Format kFormats[] = {
    {"csv", export_csv, false},
    {"json", export_json, false},
    {"weightwatcher", export_weightwatcher, false},
    {"phase-json", export_phase_json, true},
    {"gate-vectors", export_gate_vectors, true},
};

bool same_file(const std::string& a, const std::string& b) {
  struct stat first = {};
  struct stat second = {};
  return stat(a.c_str(), &first) == 0 && stat(b.c_str(), &second) == 0 &&
         first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

}  // namespace

void export_file(const std::string& path, const std::string& format, const std::string& target) {
  for (const Format& candidate : kFormats) {
    if (format != candidate.name) {
      continue;
    }
    if (candidate.folder && target == "-") {
      throw UsageError("E-EXPORT-TARGET",
                       format + " writes a folder; name one instead of standard output");
    }
    if (same_file(path, target)) {
      throw OutputError("E-OUT-INPUT", printable(target) + " is the file to be exported");
    }
    ExportInput input(path);
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
