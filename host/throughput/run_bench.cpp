// Owns the order of a benchmark: sections that were asked for, limits when one first needs them,
// failures; and its folder.
#include "run_bench.hpp"

#include "section.hpp"

#include "blas/blas_library.hpp"
#include "engine/devices/backends.hpp"
#include "engine/run/version.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <system_error>

namespace vindex::throughput {

double Limits::take(const std::string& key, const std::function<Row()>& measure,
                    const std::function<double(const Row&)>& value) {
  const auto found = known_.find(key);
  if (found != known_.end()) {
    return found->second;
  }
  Row row = measure();
  const double limit = row.samples.empty() ? 0.0 : value(row);
  report_.rows.push_back(std::move(row));
  known_[key] = limit;
  return limit;
}

double Limits::memcpy_gb_per_s(int workers) {
  constexpr std::size_t kBytes = 56U << 20U;  // the weights of 7168 x 2048 as float32
  return take(
      fmt::format("memcpy {}", workers),
      [&] {
        return workers == 1 ? memcpy_row(kBytes, settings_.sampling)
                            : memcpy_together_row(workers, kBytes, settings_.sampling);
      },
      best_of);
}

std::optional<double> Limits::flops(bool wide, int workers) {
  constexpr std::int64_t kSide = 1536;
  const double rate = take(
      fmt::format("syrk {} {}", wide, workers),
      [&] { return syrk_row(wide, kSide, workers, settings_.sampling); }, syrk_rate);
  return rate > 0.0 ? std::optional(rate) : std::nullopt;
}

std::optional<double> Limits::bus_gb_per_s() {
  const double rate = take(
      "bus",
      [&] {
        return bus_row(settings_.devices.empty() ? 0 : settings_.devices.front(),
                       settings_.sampling);
      },
      best_of);
  return rate > 0.0 ? std::optional(rate) : std::nullopt;
}

int Section::workers() const {
  const int most = std::max(1, static_cast<int>(backend.limits().concurrent_calls));
  return settings.threads > 0 ? std::min(most, static_cast<int>(settings.threads)) : most;
}

namespace {

std::string spectrum_text(const Row& row) {
  return row.spectrum.empty() ? std::string() : ", " + row.spectrum;
}

}  // namespace

void Section::add(Row row) {
  say(fmt::format("{} {} {}{}: {:.4g} {}{}", row.name,
                  row.rows == 0 ? std::string() : fmt::format("{}x{}", row.rows, row.cols),
                  row.encoding, spectrum_text(row), best_of(row), row.unit,
                  row.limit ? fmt::format(" (limit {:.4g})", *row.limit) : std::string()));
  outcome.report.rows.push_back(std::move(row));
}

void Section::add_failure(Row row, const std::string& why) {
  row.samples.clear();
  row.note = why;
  say(fmt::format("{} {}x{} {}{}: not measured: {}", row.name, row.rows, row.cols, row.encoding,
                  spectrum_text(row), why));
  outcome.failed = true;
  outcome.report.rows.push_back(std::move(row));
}

namespace {

/// The host's BLAS; a GPU measures without one.
std::string blas_text(const BenchSettings& settings) {
  try {
    return blas::load_blas(settings.blas_core).text();
  } catch (const ConfigurationError& error) {
    return error.what();
  }
}

}  // namespace

BenchOutcome run_bench(const BenchSettings& settings,
                       const std::function<void(const std::string&)>& say) {
  engine::RunSettings run_settings;
  run_settings.backend = settings.backend;
  run_settings.devices = settings.devices;
  run_settings.threads = settings.threads;
  run_settings.blas_core = settings.blas_core;
  run_settings.matrix_unit = settings.matrix_unit;
  std::string note;
  const auto backends = engine::open_backends(run_settings, note);
  say(note);

  BenchOutcome outcome;
  Report& report = outcome.report;
  report.commit = engine::program_commit();
  report.command = command_text(settings.command);
  const BackendInfo info = backends.front()->info();
  report.host = host_facts(blas_text(settings));
  if (!backends.front()->limits().uses_host_cores) {
    report.gpu = GpuFacts{.name = info.device,
                          .driver = gpu_driver_version(),
                          .cuda = fmt::format("{}", fmt::join(info.libraries, ", "))};
  }
  Limits limits(settings, report);
  Section section{settings, say, *backends.front(), limits, outcome};
  if (settings.sections.decode) {
    decode_section(section);
  }
  if (settings.sections.spectra && !settings.sampling.stopped()) {
    spectra_section(section);
  }
  if (settings.sections.index && !settings.sampling.stopped()) {
    index_section(section);
  }
  if ((settings.sections.read || settings.sections.end_to_end) && !settings.sampling.stopped()) {
    storage_section(section);
  }
  outcome.stopped = settings.sampling.stopped();
  return outcome;
}

ScratchFolder::ScratchFolder(const std::string& parent) {
  std::string pattern = (std::filesystem::path(parent) / "vindex-bench-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) {
    throw SystemError("E-SCRATCH", errno,
                      fmt::format("no folder can be made in {}", printable(parent)));
  }
  path_ = pattern;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace vindex::throughput
