// Owns the translation of a results file into other tools' formats.
#pragma once

#include "phase_inputs.hpp"

#include <string>
#include <vector>

namespace vindex::report {

/// Names of every format of export_file().
std::vector<std::string> export_formats();

/// Errors: UsageError E-EXPORT-PYTHON for "parquet" and "arrow", which the Python package writes.
void refuse_python_format(const std::string& format);

/// Writes `format` of results file `path` to `target`: "csv" and "json" of any kind of file, of its
/// table `table` ("matrix", "imatrix", "product"; every other kind has one table); "phase-json" of
/// spectra, activations, cka or routing; "weightwatcher" and "gate-vectors" of spectra. ("-" is
/// standard output for csv, json and weightwatcher; phase-json and gate-vectors write a folder.)
/// Without `replace` no file that is there is touched, and a results file never is (both before any
/// work). Errors: UsageError for a format that the file cannot serve (gate-vectors without vectors)
/// or a table that it lacks, FormatError E-RESULTS-KIND for another kind of file in `others`,
/// ConfigurationError E-EXPORT-MODEL for files of different models, OutputError, SystemError;
/// UsageError E-EXPORT-SAMPLE for gate-vectors of a sample of the experts. Gives a line for people
/// where what was written is a sample, else nothing.
std::string export_file(const std::string& path, const std::string& format,
                        const std::string& target, bool replace = true,
                        const std::string& table = "matrix", const PhaseInputs& others = {});

}  // namespace vindex::report
