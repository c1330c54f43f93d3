// Owns the spectrum of one array, its named numbers, and the nulls of a shape.
#include "access.hpp"

#include "blas/blas_library.hpp"
#include "core/process/stop.hpp"
#include "core/text/nearest_name.hpp"
#include "decode/encoding/encoded_matrix.hpp"
#include "input/remote/remote_environment.hpp"
#include "results/rows/result_row.hpp"
#include "statistics/null/nulls.hpp"
#include "statistics/spectrum/metric_table.hpp"
#include "statistics/spectrum/metrics.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <utility>

namespace vindex {

inline namespace v0 {

struct FiguresAccess {
  static void put(Figures& figures, const std::string& name, double value) {
    figures.values_.insert_or_assign(name, value);
  }
};

}  // namespace v0

namespace {

void require_shape(std::int64_t rows, std::int64_t cols) {
  if (rows < 1 || cols < 1) {
    throw UsageError("E-SHAPE", fmt::format("{} x {}: a matrix has at least one row and one column",
                                            rows, cols));
  }
}

void put_all(v0::Figures& figures, const statistics::MetricValues& values, const char* suffix,
             bool nulls_only) {
  for (const statistics::MetricRow& row : statistics::metric_rows()) {
    if (row.has_null || !nulls_only) {
      FiguresAccess::put(figures, fmt::format("{}{}", row.name, suffix), values[row.metric]);
    }
  }
  for (std::size_t i = 0; i < kVarAtK.size(); ++i) {
    FiguresAccess::put(figures, fmt::format("var_at_{}{}", kVarAtK[i], suffix), values.var_at_k[i]);
  }
}

/// `values` and, beside them, what noise gives; without `values` that alone, by both names.
v0::Figures figures_of(const statistics::MetricValues& noise,
                       const statistics::MetricValues* values) {
  v0::Figures figures;
  put_all(figures, values == nullptr ? noise : *values, "", values == nullptr);
  put_all(figures, noise, "_null", true);
  return figures;
}

statistics::NullCache& nulls() {
  static statistics::NullCache cache;  // thread-safe
  return cache;
}

}  // namespace

double v0::Figures::operator[](std::string_view name) const {
  if (const auto found = values_.find(name); found != values_.end()) {
    return found->second;
  }
  std::vector<std::string> names;
  for (const auto& [known, value] : values_) {
    names.push_back(known);
  }
  const std::string guess = did_you_mean(std::string(name), names);
  throw UsageError("E-COLUMN", fmt::format("no figure `{}`{}{}", printable(std::string(name)),
                                           guess.empty() ? "" : "; ", guess));
}

namespace library {

void prepare_arithmetic() { blas::keep_blas_apart(input::variable("OPENBLAS_CORETYPE")); }

SpectrumMode mode_of(Mode mode) {
  switch (mode) {
    case Mode::kFast:
      return SpectrumMode::kFast;
    case Mode::kStrict:
      return SpectrumMode::kStrict;
    case Mode::kDefault:
      break;
  }
  return SpectrumMode::kDefault;
}

engine::BackendChoice backend_of(const std::string& name) {
  if (const auto choice = engine::backend_choice(name)) {
    return *choice;
  }
  throw UsageError("E-BACKEND",
                   fmt::format("no back end `{}`; there are auto, cpu and cuda", printable(name)));
}

}  // namespace library

v0::Spectrum v0::spectrum(std::span<const float> weights, std::int64_t rows, std::int64_t cols,
                          const SpectrumSettings& settings) {
  require_shape(rows, cols);
  if (static_cast<std::uint64_t>(rows) > weights.size() / static_cast<std::uint64_t>(cols) ||
      weights.size() != static_cast<std::size_t>(rows * cols)) {
    throw UsageError("E-SHAPE", fmt::format("{} weights for {} x {}", weights.size(), rows, cols));
  }
  engine::RunSettings run;
  run.backend = library::backend_of(settings.backend);
  run.options.mode = library::mode_of(settings.mode);
  run.options.escalate = settings.escalate;
  run.options.stop = settings.stop;
  library::prepare_arithmetic();
  std::string note;
  const auto backends = engine::open_backends(run, note);
  const auto input = make_memory_input(decode::float32_view(weights.data(), rows, cols));
  MatrixInput* const batch[] = {input.get()};
  MatrixReport report;
  try {
    backends.front()->measure(batch, run.options, 0, {&report, 1});
  } catch (const Stopped&) {
    library::throw_stopped("the spectrum");
  }
  Spectrum out;
  const statistics::MetricValues values =
      statistics::derive_metrics(rows, cols, report, run.options.mode, report.reason);
  out.sigma = std::move(report.sigma);
  out.sigma_error = report.sigma_error;
  out.method = std::move(report.method);
  out.escalated = report.escalated;
  out.status = results::kStatusNames[static_cast<std::size_t>(report.status)];
  out.reason = std::move(report.reason);
  out.backend = backends.front()->info().name;
  out.figures = figures_of(nulls().of(rows, cols), &values);
  return out;
}

v0::Null v0::null(std::int64_t rows, std::int64_t cols) {
  require_shape(rows, cols);
  return {.rows = rows, .cols = cols, .figures = figures_of(nulls().of(rows, cols), nullptr)};
}

}  // namespace vindex
