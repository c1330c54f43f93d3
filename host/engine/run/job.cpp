// Owns what every job does alike: failed rows, reasons, the sink that counts what has been pushed.
#include "job.hpp"

#include "backend/backend.hpp"
#include <vindex/error.hpp>

#include <utility>

namespace vindex::engine {

std::uint64_t bulk_bytes(const results::ResultRow& row) {
  std::uint64_t bytes = sizeof(double) * (row.sigma.size() + row.cells.size());
  if (row.vectors) {
    bytes += sizeof(float) * (row.vectors->left.size() + row.vectors->right.size());
  }
  for (const results::ArrayCell& array : row.arrays) {
    bytes += array.bytes();
  }
  return bytes;
}

results::ResultRow failed_row(const std::exception_ptr& error) {
  const auto code_text = [](ExitCode code) { return std::to_string(static_cast<int>(code)); };
  results::ResultRow row;
  row.status = MatrixStatus::kFailed;
  try {
    std::rethrow_exception(error);
  } catch (const DeviceError&) {
    throw;
  } catch (const Error& e) {
    row.reason = e.what();
    row.error_class = code_text(e.exit_code());
  } catch (const std::exception& e) {
    row.reason = e.what();
    row.error_class = code_text(ExitCode::kInternal);
  }
  return row;
}

void add_reason(results::ResultRow& row, const std::string& reason) {
  row.reason += (row.reason.empty() ? "" : "; ") + reason;
}

void RowSink::push(results::ResultRow row) {
  const std::uint64_t bytes = bulk_bytes(row);
  rows_.push(std::move(row), bytes);
}

void RowSink::push_failed(std::int64_t index, const std::exception_ptr& error) {
  results::ResultRow row = failed_row(error);
  row.index = index;
  push(std::move(row));
}

void RowSink::fail(std::exception_ptr error) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_ == nullptr) {
      failure_ = std::move(error);
    }
  }
  rows_.close();
}

std::exception_ptr RowSink::failure() {
  const std::lock_guard lock(mutex_);
  return failure_;
}

std::unique_ptr<StagingBuffer> Job::make_staging(std::size_t bytes) {
  return make_host_staging(bytes);
}

}  // namespace vindex::engine
