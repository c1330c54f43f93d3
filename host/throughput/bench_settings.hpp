// Owns what a benchmark is asked for, and what comes out of it.
#pragma once

#include "report.hpp"
#include "sampling.hpp"

#include "backend/backend.hpp"
#include "engine/run_settings.hpp"

#include <cstdint>
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

}  // namespace vindex::throughput
