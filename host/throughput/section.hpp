// Owns what the sections of a benchmark share: settings, back ends, limits, the report they write
// into, and a folder for what they write, removed at the end.
#pragma once

#include "bench_settings.hpp"
#include "machine_limits.hpp"

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace vindex::throughput {

class ScratchFolder {
 public:
  /// A new folder in `parent`. Errors: SystemError.
  explicit ScratchFolder(const std::string& parent);
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

/// Limits taken so far; a section that needs one it lacks takes it.
class Limits {
 public:
  Limits(const BenchSettings& settings, Report& report) : settings_(settings), report_(report) {}

  /// GB/s written by one copying thread, or by `workers` at once.
  double memcpy_gb_per_s(int workers);
  /// Flop per second and worker of float32 (float64: wide) matrix products on `workers` at once, by
  /// the best kernels known here; nothing where only poorer ones can be had.
  std::optional<double> flops(bool wide, int workers);
  /// GB/s to the first CUDA device; nothing where there is none.
  std::optional<double> bus_gb_per_s();

 private:
  /// Measures and reports what is not known yet.
  double take(const std::string& key, const std::function<Row()>& measure,
              const std::function<double(const Row&)>& value);

  const BenchSettings& settings_;
  Report& report_;
  std::map<std::string, double> known_;
};

/// What run_bench() hands to a section.
struct Section {
  const BenchSettings& settings;
  const std::function<void(const std::string&)>& say;
  Backend& backend;  ///< the first one
  Limits& limits;
  BenchOutcome& outcome;

  bool is_cuda() const { return !backend.limits().uses_host_cores; }
  /// Calls of measure() at once.
  int workers() const;
  /// Adds the row and says it.
  void add(Row row);
  /// Adds the row without samples, saying why.
  void add_failure(Row row, const std::string& why);
};

/// Rows "decode": one thread of the CPU, every encoding asked for, in interleaved samples.
void decode_section(Section& section);

/// Rows "spectra.MODE" with "decode", "gram" and "probe.eigen" as the back end timed its stages.
void spectra_section(Section& section);

/// Rows "probe.index" and "probe.index.processor": a model of `index_tensors` opened and indexed.
void index_section(Section& section);

/// Rows "read" and "end_to_end", from the page cache and from the disk.
void storage_section(Section& section);

/// Least time for one matrix: the triangle of the Gram matrix and its reduction at the BLAS rate
/// measured here (CPU), or its bytes over the bus (CUDA). Milliseconds; nothing where unknown.
std::optional<double> spectra_limit_ms(Section& section, const SpectraCase& one,
                                       std::size_t encoded_bytes);

/// Samples of one case in milliseconds per matrix, stages beside them.
struct SpectraSamples {
  std::string method;
  std::int64_t batch = 0;
  std::size_t encoded_bytes = 0;  ///< of one matrix
  std::vector<double> total, decode, gram, eigen;
  std::vector<double> processor;  ///< processor time of all threads
};
/// Errors: Error where a matrix was not measured; what the back end throws.
SpectraSamples measure_case(Section& section, const SpectraCase& one);

}  // namespace vindex::throughput
