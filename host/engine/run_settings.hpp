// Owns what every run is asked for on the command line, whatever it computes. What one command
// alone is asked for are the settings of that command's folder, of which these are the part `run`.
#pragma once

#include "backend/backend.hpp"
#include "input/bulk/bulk_reader.hpp"
#include "model/selection/selection.hpp"
#include "results/runs/run_store.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace vindex::engine {

enum class BackendChoice : std::uint8_t { kAuto, kCpu, kCuda };

/// Where settings come from, for the results file and for the user; no number depends on it.
struct Provenance {
  std::vector<std::string> command = {};  ///< argv
  /// "NAME=value" of the environment that was taken out of it.
  std::vector<std::string> unset_variables = {};
  std::string ram_budget_source = {};
  std::string worker_source = {};  ///< the variables that gave the worker; empty: none
};

struct RunSettings {
  std::string model;  ///< its address (input/stores/open_store.hpp), as of every input
  std::string model_config;
  std::string output;
  model::Selection selection;
  MeasureOptions options;
  BackendChoice backend = BackendChoice::kAuto;
  std::vector<std::int32_t> devices = {0};  ///< CUDA devices; empty: all
  std::int32_t threads = 0;                 ///< CPU workers; 0: every core
  std::string blas_core;  ///< kernels of OpenBLAS that the user wants; empty: the processor's best
  bool matrix_unit = true;  ///< the CPU back end may use the processor's (cpu/simd/matrix_unit.hpp)
  std::uint64_t ram_budget = 0;  ///< bytes; a run needs more than 0 (engine/plan/memory_budget.hpp)
  input::BulkReadOptions reading;
  results::WorkerShare worker;
  bool restart = false;
  Provenance provenance;
};

}  // namespace vindex::engine
