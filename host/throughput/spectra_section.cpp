// Owns the section on spectra: milliseconds per matrix of the back end by mode, route, shape,
// encoding, batch and kind of spectrum, with its own stages.
#include "encoded_weights.hpp"
#include "section.hpp"

#include "engine/run/description_parts.hpp"
#include "statistics/judgement/first_step.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace vindex::throughput {

namespace {

/// Different matrices of a batch; the others are copies at addresses of their own.
constexpr std::int64_t kDistinct = 4;

/// Calls of a worker one after the other in one sample. A device's lanes begin a sample together
/// and end it one after the other, which a run of thousands of matrices does once: of a single call
/// each that is a tenth.
constexpr int kDeviceCalls = 4;

Row row_of(const Section& section, const SpectraCase& one, const std::string& name) {
  return {.name = name,
          .route = one.route,
          .backend = section.backend.info().name,
          .rows = one.rows,
          .cols = one.cols,
          .batch = one.batch,
          .encoding = encoding_of(one.encoding).label,
          .spectrum = one.spectrum,
          .unit = "ms_per_matrix"};
}

/// True where the arithmetic is in float64.
bool is_wide(const SpectraCase& one) {
  return one.mode == SpectrumMode::kStrict ||
         statistics::begins_in_float64(one.rows, one.cols, {.mode = one.mode}, 1);
}

}  // namespace

std::optional<double> spectra_limit_ms(Section& section, const SpectraCase& one,
                                       std::size_t encoded_bytes) {
  if (section.is_cuda()) {
    const auto rate = section.limits.bus_gb_per_s();
    return rate ? std::optional<double>(1e-6 * static_cast<double>(encoded_bytes) / *rate)
                : std::nullopt;
  }
  const auto p = static_cast<double>(std::min(one.rows, one.cols));
  const auto n = static_cast<double>(std::max(one.rows, one.cols));
  const double flop = n * p * (p + 1.0) + 4.0 / 3.0 * p * p * p;
  const int workers = section.workers();
  const auto rate = section.limits.flops(is_wide(one), workers);
  return rate ? std::optional(1e3 * flop / *rate / workers) : std::nullopt;
}

SpectraSamples measure_case(Section& section, const SpectraCase& one) {
  const decode::Encoding encoding = encoding_of(one.encoding);
  std::vector<std::unique_ptr<EncodedWeights>> distinct;
  const int workers = section.workers();
  const std::int64_t batch = one.batch > 0 ? one.batch : section.backend.limits().batch;
  const std::int64_t matrices = batch * workers;
  // Calls of a device read the same copies: each of a batch has its own address, and pinning those
  // of every call would take longer than the samples.
  const std::int64_t copies = section.is_cuda() ? batch : matrices;
  for (std::int64_t i = 0; i < std::min(matrices, kDistinct); ++i) {
    distinct.push_back(std::make_unique<EncodedWeights>(
        encoding, one.rows, one.cols, static_cast<std::uint64_t>(i) + 1, one.spectrum));
    if (!distinct.back()->has_spectrum()) {
      throw UsageError("E-ENCODING", encoding.label +
                                         " can be read and not written: the section "
                                         "decode measures it, no other");
    }
  }
  SpectraSamples result;
  result.batch = matrices;
  result.encoded_bytes = distinct.front()->bytes();
  const std::size_t room = (result.encoded_bytes + 4095) / 4096 * 4096;
  const auto staging = section.backend.make_staging(room * static_cast<std::size_t>(copies));
  std::vector<std::unique_ptr<MatrixInput>> inputs;
  std::vector<MatrixInput*> members;
  std::vector<decode::EncodedMatrix> placed;
  for (std::int64_t i = 0; i < copies; ++i) {
    const auto place = staging->bytes().subspan(room * static_cast<std::size_t>(i), room);
    const auto& weights = *distinct[static_cast<std::size_t>(i) % distinct.size()];
    placed.push_back(weights.copied_to(place));
  }
  for (std::int64_t i = 0; i < matrices; ++i) {
    inputs.push_back(make_memory_input(placed[static_cast<std::size_t>(i % copies)]));
    members.push_back(inputs.back().get());
  }

  MeasureOptions options;
  options.mode = one.mode;
  options.svd_route = one.route;
  const auto size = static_cast<std::size_t>(batch);
  const int repeats = section.is_cuda() ? kDeviceCalls : 1;
  int calls = 0;
  result.total = take_samples(section.settings.sampling, [&] {
    std::vector<MatrixReport> reports(members.size());
    const double before = process_seconds();
    const double seconds = run_together(workers, [&](int worker) {
      const std::size_t first = static_cast<std::size_t>(worker) * size;
      for (int i = 0; i < repeats; ++i) {
        section.backend.measure(std::span(members).subspan(first, size), options, 0,
                                std::span(reports).subspan(first, size));
      }
    });
    const double processor = process_seconds() - before;
    double decode = 0.0;
    double gram = 0.0;
    double eigen = 0.0;
    for (const MatrixReport& report : reports) {
      if (report.status != MatrixStatus::kMeasured) {
        throw Error(ExitCode::kInternal, "E-BENCH", "a matrix was not measured: " + report.reason);
      }
      decode += report.seconds_decode;
      gram += report.seconds_gram;
      eigen += report.seconds_eigen;
      result.method = report.method + (report.escalated ? ", escalated" : "");
    }
    if (calls++ > 0) {                                           // the first call is the warm-up
      const double to_ms = 1e3 / static_cast<double>(matrices);  // of a worker's last call
      result.processor.push_back(to_ms * processor);
      result.decode.push_back(to_ms * decode);
      result.gram.push_back(to_ms * gram);
      result.eigen.push_back(to_ms * eigen);
    }
    return 1e3 * seconds / static_cast<double>(matrices * repeats);
  });
  return result;
}

void spectra_section(Section& section) {
  for (const SpectraCase& one : section.settings.cases) {
    if (section.settings.sampling.stopped()) {
      return;
    }
    const std::string name = "spectra." + engine::mode_name(one.mode);
    try {
      SpectraSamples samples = measure_case(section, one);
      if (samples.total.empty()) {
        return;
      }
      Row row = row_of(section, one, name);
      row.route = one.route + ": " + samples.method;
      row.batch = samples.batch;
      row.samples = std::move(samples.total);
      if (section.is_cuda()) {
        row.note = fmt::format("{} calls of each lane in a sample", kDeviceCalls);
      }
      row.limit = spectra_limit_ms(section, one, samples.encoded_bytes);
      section.add(row);
      if (!section.is_cuda()) {
        Row processor = row;
        processor.name = "probe.cpu_time";
        processor.samples = std::move(samples.processor);
        processor.limit.reset();
        processor.note = "processor time of all threads, " + name;
        section.add(processor);
      }
      // Stages are timed inside a call: other calls run beside them, so their sum is the time of
      // one worker and not that of the row above.
      const std::string note =
          "one of " + std::to_string(section.workers()) + " calls at once, " + name;
      for (auto& [stage, milliseconds] :
           {std::pair<const char*, std::vector<double>&>("decode", samples.decode),
            std::pair<const char*, std::vector<double>&>("gram", samples.gram),
            std::pair<const char*, std::vector<double>&>("probe.eigen", samples.eigen)}) {
        if (std::accumulate(milliseconds.begin(), milliseconds.end(), 0.0) > 0.0) {
          Row part = row;
          part.name = stage;
          part.samples = milliseconds;
          part.limit.reset();
          part.note = note;
          if (part.name == "gram" && !section.is_cuda()) {
            const auto p = static_cast<double>(std::min(one.rows, one.cols));
            const auto n = static_cast<double>(std::max(one.rows, one.cols));
            if (const auto rate = section.limits.flops(is_wide(one), section.workers())) {
              part.limit = 1e3 * n * p * (p + 1.0) / *rate;
            }
          }
          section.add(part);
        }
      }
    } catch (const UsageError&) {
      throw;  // the command line's fault
    } catch (const std::exception& error) {
      section.add_failure(row_of(section, one, name), error.what());
    }
  }
}

}  // namespace vindex::throughput
