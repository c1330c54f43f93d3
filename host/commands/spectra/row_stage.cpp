// Owns the threads that turn reports into rows: metrics, nulls, texts, spectra and vectors.
#include "row_stage.hpp"

#include "spectra_cells.hpp"

#include "core/process/parallel.hpp"
#include "core/process/stop.hpp"
#include "cpu/product/product_spectrum.hpp"
#include "model/products/product.hpp"
#include "statistics/null/sign_flip_null.hpp"
#include "statistics/spectrum/metrics.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <chrono>
#include <string>

namespace vindex::commands {

namespace {

constexpr std::size_t kMaxReports = 4096;
constexpr std::int32_t kMaxStageThreads = 16;

std::string code_text(ExitCode code) { return std::to_string(static_cast<int>(code)); }

std::uint64_t vector_bytes(const std::optional<SingularVectors>& vectors) {
  return vectors ? sizeof(float) * (vectors->left.size() + vectors->right.size()) : 0;
}

std::uint64_t draw_bytes(const std::optional<SignFlipNull>& null) {
  return null
             ? sizeof(double) * null->first_sigma.size() + sizeof(SignFlipDraw) * null->draws.size()
             : 0;
}

}  // namespace

RowStage::RowStage(const model::ModelIndex& index, const MeasureOptions& options,
                   engine::RowSink& rows, std::uint64_t queue_bytes)
    : index_(index), options_(options), rows_(rows), raw_(kMaxReports, queue_bytes) {
  const std::int32_t count = std::clamp(usable_cores() / 4, 1, kMaxStageThreads);
  for (std::int32_t i = 0; i < count && start_thread(threads_, [this] { work(); }); ++i) {
  }
  if (threads_.empty()) {
    throw_no_thread("the rows of results");
  }
}

RowStage::~RowStage() { finish(); }

void RowStage::push(std::int64_t row, std::int64_t matrix, MatrixReport report, TakenSample taken) {
  const std::uint64_t bytes = sizeof(double) * report.sigma.size() + draw_bytes(report.sign_flip) +
                              vector_bytes(report.vectors) + sizeof(float) * taken.weights.size();
  raw_.push({.row = row, .matrix = matrix, .report = std::move(report), .taken = std::move(taken)},
            bytes);
}

void RowStage::finish() {
  raw_.close();
  threads_.clear();
}

void RowStage::work() {
  try {
    while (auto raw = raw_.pop()) {
      throw_if_stopped(rows_.stop_token());
      const auto start = std::chrono::steady_clock::now();
      results::ResultRow row = row_of(*raw);
      busy_nanoseconds_ += std::chrono::duration_cast<std::chrono::nanoseconds>(
                               std::chrono::steady_clock::now() - start)
                               .count();
      rows_.push(std::move(row));
    }
  } catch (const Stopped&) {
    // Nobody takes rows any more.
  } catch (...) {
    rows_.fail(std::current_exception());
  }
  raw_.close();
}

results::ResultRow RowStage::row_of(Raw& raw) {
  const model::MatrixRecord& record = index_.matrices[static_cast<std::size_t>(raw.matrix)];
  MatrixReport& report = raw.report;
  results::ResultRow row;
  row.index = raw.row;
  row.status = report.status;
  row.reason = report.reason;
  row.method = report.method;
  row.escalated = report.escalated;
  SpectrumNumbers numbers;
  numbers.sigma_error = report.sigma_error;
  numbers.set_moments(report.moments);
  if (report.status == MatrixStatus::kMeasured && !raw.taken.weights.empty()) {
    numbers.set_sample(statistics::sample_angles(raw.taken.weights, false));
    numbers.set_scales(raw.taken.scales);
  }
  if (record.product == nullptr) {
    numbers.nulls = nulls_.of(record.rows, record.cols);
  }
  if (report.status == MatrixStatus::kFailed) {
    row.error_class = code_text(ExitCode::kInternal);
  } else if (report.status == MatrixStatus::kUnsupported) {
    row.error_class = code_text(ExitCode::kMalformedInput);
  }
  if (report.status == MatrixStatus::kMeasured && record.product != nullptr) {
    numbers.nulls = product_nulls_.of(record.product->sides(), rows_.stop_token());
    numbers.values = cpu::derive_product_metrics(record.rows, record.cols, record.product->rank(),
                                                 report, row.reason);
    row.sigma = std::move(report.sigma);
  } else if (report.status == MatrixStatus::kMeasured) {
    numbers.values =
        statistics::derive_metrics(record.rows, record.cols, report, options_.mode, row.reason);
    if (report.sign_flip) {
      numbers.sign_flip = statistics::summarise_sign_flips(
          *report.sign_flip, numbers.values, report.sigma, std::min(record.rows, record.cols));
    }
    row.sigma = std::move(report.sigma);
    if (report.bounds) {
      numbers.set_bounds(*report.bounds);
    }
    row.vectors = std::move(report.vectors);
  }
  row.cells = spectra_cells(numbers);
  return row;
}

}  // namespace vindex::commands
