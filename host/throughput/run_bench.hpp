// Owns `vindex bench`: which sections are measured, on what, and the report that comes out. Every
// rate stands beside a limit taken in the same run (memory copy, BLAS, disk, bus).
#pragma once

#include "report.hpp"
#include "sampling.hpp"

#include "backend/backend.hpp"
#include "commands/spectra/measure_run.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace vindex::throughput {

/// One point of the spectra section.
struct SpectraCase {
  SpectrumMode mode = SpectrumMode::kDefault;
  std::int64_t rows = 0, cols = 0;  ///< as stored
  std::string encoding = {};        ///< label, see encoding_of()
  std::string spectrum = "noise";   ///< of the weights, see known_spectra()
  std::int64_t batch = 0;           ///< matrices per call; 0: what the back end asks for
  std::string route = "auto";
};

/// Which sections run.
struct Sections {
  bool read = true, decode = true, spectra = true, end_to_end = true, index = true;
};

struct BenchSettings {
  Sections sections;
  std::vector<SpectraCase> cases;  ///< of the spectra section
  /// Of the decode section.
  std::vector<std::string> decode_encodings;
  std::int64_t decode_rows = 2048, decode_cols = 7168;
  std::string simd_level;  ///< of the decode section; empty: the best here
  engine::BackendChoice backend = engine::BackendChoice::kAuto;
  std::vector<std::int32_t> devices = {0};
  std::int32_t threads = 0;      ///< 0: every core; CUDA: calls at once
  std::uint64_t ram_budget = 0;  ///< bytes, of end_to_end
  bool matrix_unit = true;       ///< the CPU back end may use the processor's
  std::string blas_core;         ///< kernels of OpenBLAS that the user wants; empty: the best here
  Sampling sampling;
  std::int64_t index_tensors = 207'360;  ///< of the model that the section index writes
  /// Of the sections index, read and end_to_end: a model of the user's, or empty for one of
  /// `index_tensors` and for `synth_spec`, written to a folder of its own below `folder` and
  /// removed afterwards.
  std::string model;
  std::string synth_spec;
  std::string folder;
  SpectrumMode mode = SpectrumMode::kDefault;  ///< of end_to_end
  std::vector<std::string> command;            ///< argv
};

/// What ends up on standard output, and how it ended.
struct BenchOutcome {
  Report report;
  bool stopped = false;  ///< by a signal; the rows so far are whole
  bool failed = false;   ///< a row has a note instead of samples
};

/// Measures. `say` receives a line per case. A case that cannot be measured becomes a row with a
/// note. Errors: DeviceError E-NO-GPU (70) where CUDA is demanded and absent, UsageError for shapes
/// and encodings that do not exist, errors of open_model() for `model`, OutputError/SystemError
/// where `folder` cannot be written.
BenchOutcome run_bench(const BenchSettings& settings,
                       const std::function<void(const std::string&)>& say);

}  // namespace vindex::throughput
