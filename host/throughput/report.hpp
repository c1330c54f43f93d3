// Owns the form "vindex-bench/1" (command-line contract): what a benchmark says of one timing, of
// the machine and of itself, as JSON with every sample and as a table for people.
#pragma once

#include "core/text/text_table.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace vindex::throughput {

/// One thing measured. No sample and a note: it could not be measured, and why.
struct Row {
  std::string name = {};   ///< read, decode, gram, spectra.MODE, end_to_end, probe.*
  std::string route = {};  ///< how it was done: SVD route, SIMD level, page-cache, ...
  std::string backend = "cpu";
  std::int64_t rows = 0;  ///< of the matrix as stored; 0 where nothing has a shape
  std::int64_t cols = 0;
  std::int64_t batch = 1;
  std::string encoding = "F32";
  std::string spectrum = {};  ///< trained, noise, ...: of the weights; empty where none is measured
  /// ms_per_matrix, gb_f32_per_s, gb_in_per_s, gb_per_s, seconds, microseconds or share
  std::string unit = {};
  std::vector<double> samples = {};
  std::optional<double> limit = {};  ///< in the row's unit, measured in the same run
  std::string peer = {};             ///< empty: ours
  std::string note = {};             ///< one line for people; empty: none
};

struct HostFacts {
  std::string cpu;
  std::int64_t cores = 0;  ///< this process may run on
  double memory_gib = 0.0;
  std::string blas;  ///< "none" where no BLAS is in the program
};

struct GpuFacts {
  std::string name, driver, cuda;
};

struct Report {
  std::string commit = {};
  std::string command = {};
  HostFacts host = {};
  std::optional<GpuFacts> gpu = {};
  std::vector<Row> rows = {};
};

/// Facts of this machine; `blas` is the caller's.
HostFacts host_facts(std::string blas);

/// Version of the loaded NVIDIA driver ("580.159.04"), or "unknown".
std::string gpu_driver_version();

/// `arguments` with spaces between.
std::string command_text(const std::vector<std::string>& arguments);

/// One row as a JSON object without line feeds.
std::string row_json(const Row& row);

/// One JSON document, dated now, ending in a line feed.
std::string report_json(const Report& report);

/// A line per row: median and best of the samples, the limit, and how near it is (1.00: reached).
std::string report_table(const Report& report, std::size_t columns = kUsualWidth);

/// True for units in which less is better.
bool is_duration(const std::string& unit);

/// Middle of `values` (mean of the two middles); NaN for none.
double median(std::vector<double> values);

/// The fastest sample of a row: largest rate or shortest time; NaN for none.
double best_of(const Row& row);

}  // namespace vindex::throughput
