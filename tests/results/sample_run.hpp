// Owns the small model that the tests of this layer measure: a few layers of experts with planted
// spectra, built by hand.
#pragma once

#include "commands/spectra/spectra_cells.hpp"
#include "results/runs/run_store.hpp"

#include <cstdint>
#include <string>

namespace vindex::results::testing {

struct SampleOptions {
  std::int32_t layers = 2;
  std::int32_t experts = 3;
  std::int64_t rows = 24;  ///< of down_proj; gate_proj is the transpose
  std::int64_t cols = 16;
  std::string mode = "default";
  std::int32_t sign_flip_draws = 0;
  std::int32_t vectors = 0;
  bool spectra = true;
  bool sampled = false;
};

/// Per layer: a router, and gate_proj and down_proj of every expert. Matrices in the file's order;
/// tensors also hold a norm without a matrix.
RunDescription sample_run(const SampleOptions& options = {});

/// sample_run() with a weighted row for every down_proj, as `--imatrix` adds them.
RunDescription weighted_run(const SampleOptions& options = {});

/// What a back end would have found for matrix `index`: a spectrum that differs from row to row,
/// moments that agree with it.
ResultRow sample_row(const RunDescription& run, std::int64_t index);
/// Its numbers.
commands::SpectrumNumbers sample_numbers(const RunDescription& run, std::int64_t index);

/// A folder of its own for one test, removed afterwards.
class TestFolder {
 public:
  TestFolder();
  ~TestFolder();
  TestFolder(const TestFolder&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// Measures matrices [first, last) of `run` into `store`.
void measure_rows(RunStore& store, const RunDescription& run, std::int64_t first,
                  std::int64_t last);

/// A complete results file of `run` at `path`.
void write_sample(const std::string& path, const RunDescription& run);

}  // namespace vindex::results::testing
