#include "row_stage.hpp"

#include <vindex/core/error.hpp>
#include <vindex/model/product.hpp>
#include <vindex/run/derived_rows.hpp>
#include <vindex/run/work_plan.hpp>

#include <algorithm>
#include <chrono>
#include <string>

namespace vindex::run {

namespace {

/// Reports and rows that wait: seconds of a fast device's output, whose spectra are 16 KiB each.
constexpr std::size_t kQueue = 4096;
constexpr std::uint64_t kQueueBytes = 24U << 20U;
constexpr std::int32_t kMostThreads = 16;

std::string code_text(ExitCode code) { return std::to_string(static_cast<int>(code)); }

std::uint64_t vector_bytes(const std::optional<measure::SingularVectors>& vectors) {
  return vectors ? sizeof(float) * (vectors->left.size() + vectors->right.size()) : 0;
}

std::uint64_t draw_bytes(const std::optional<measure::SignFlipNull>& null) {
  return null ? sizeof(double) * null->first_sigma.size() +
                    sizeof(measure::SignFlipDraw) * null->draws.size()
              : 0;
}

}  // namespace

results::ResultRow failed_row(const std::exception_ptr& error) {
  results::ResultRow row;
  row.status = measure::Status::kFailed;
  try {
    std::rethrow_exception(error);
  } catch (const Error& e) {
    row.reason = e.what();
    row.error_class = code_text(e.exit_code());
  } catch (const std::exception& e) {
    row.reason = e.what();
    row.error_class = code_text(ExitCode::kInternal);
  }
  return row;
}

RowStage::RowStage(const model::ModelIndex& index, const measure::MeasureOptions& options,
                   const std::vector<std::int64_t>& row_of_matrix, std::int32_t threads)
    : index_(index),
      options_(options),
      row_of_matrix_(row_of_matrix),
      raw_(kQueue, kQueueBytes),
      deliveries_(kQueue, kQueueBytes) {
  const auto cores = static_cast<std::int32_t>(std::thread::hardware_concurrency());
  left_ = threads > 0 ? threads : std::clamp(cores / 4, 1, kMostThreads);
  const std::int32_t count = left_;
  for (std::int32_t i = 0; i < count; ++i) {
    threads_.emplace_back([this] { work(); });
  }
}

RowStage::~RowStage() {
  raw_.close();
  deliveries_.close();
  for (std::thread& thread : threads_) {
    thread.join();
  }
}

void RowStage::push(std::int64_t matrix, measure::MatrixReport report) {
  const std::uint64_t bytes = sizeof(double) * report.sigma.size() + draw_bytes(report.sign_flip) +
                              vector_bytes(report.vectors);
  raw_.push({.matrix = matrix, .report = std::move(report), .error = nullptr}, bytes);
}

void RowStage::push_failed(std::int64_t matrix, std::exception_ptr error) {
  raw_.push({.matrix = matrix, .report = {}, .error = std::move(error)});
}

std::exception_ptr RowStage::failure() {
  const std::lock_guard lock(failure_mutex_);
  return failure_;
}

void RowStage::close() { raw_.close(); }

void RowStage::work() {
  try {
    while (auto raw = raw_.pop()) {
      const auto start = std::chrono::steady_clock::now();
      results::ResultRow row = row_of(*raw);
      busy_nanoseconds_ += std::chrono::duration_cast<std::chrono::nanoseconds>(
                               std::chrono::steady_clock::now() - start)
                               .count();
      deliver(raw->matrix, std::move(row));
    }
  } catch (...) {
    const std::lock_guard lock(failure_mutex_);
    failure_ = std::current_exception();
    raw_.close();
  }
  if (--left_ == 0) {
    deliveries_.close();
  }
}

results::ResultRow RowStage::row_of(Raw& raw) {
  if (raw.error != nullptr) {
    return failed_row(raw.error);
  }
  const model::MatrixRecord& record = index_.matrices[static_cast<std::size_t>(raw.matrix)];
  measure::MatrixReport& report = raw.report;
  results::ResultRow row;
  row.status = report.status;
  row.reason = report.reason;
  row.method = report.method;
  row.escalated = report.escalated;
  row.moments = report.moments;
  if (record.product == nullptr) {
    row.nulls = nulls_.of(record.rows, record.cols);
  }
  if (report.status == measure::Status::kFailed) {
    row.error_class = code_text(ExitCode::kInternal);
  } else if (report.status == measure::Status::kUnsupported) {
    row.error_class = code_text(ExitCode::kMalformedInput);
  }
  if (report.status == measure::Status::kMeasured && record.product != nullptr) {
    row.nulls = product_nulls_.of(record.product->sides());
    row.values = cpu::derive_product_metrics(record.rows, record.cols, record.product->rank(),
                                             report, row.reason);
    row.sigma = std::move(report.sigma);
  } else if (report.status == measure::Status::kMeasured) {
    row.values =
        measure::derive_metrics(record.rows, record.cols, report, options_.mode, row.reason);
    if (report.sign_flip) {
      row.sign_flip = measure::summarise_sign_flips(*report.sign_flip, row.values, report.sigma,
                                                    std::min(record.rows, record.cols));
    }
    row.sigma = std::move(report.sigma);
    row.bounds = std::move(report.bounds);
    row.vectors = std::move(report.vectors);
  }
  return row;
}

void RowStage::deliver(std::int64_t matrix, results::ResultRow row) {
  const model::MatrixRecord& record = index_.matrices[static_cast<std::size_t>(matrix)];
  row.index = row_of_matrix_[static_cast<std::size_t>(matrix)];
  const std::uint64_t bytes = sizeof(double) * row.sigma.size() + vector_bytes(row.vectors);
  deliveries_.push(
      {.row = std::move(row), .bytes = encoded_bytes(record), .cost = row_cost(record, options_)},
      bytes);
}

}  // namespace vindex::run
