// Owns keys of rows, their order, and which of two outcomes is the better.
#include "stored_row.hpp"

#include <vindex/core/error.hpp>
#include <vindex/model/product.hpp>

#include <tuple>

namespace vindex::results {

using measure::Status;

std::string row_key(const std::string& tensor, std::int32_t slice) {
  return tensor + "#" + std::to_string(slice);
}

bool row_before(const StoredRow& a, const StoredRow& b) {
  const auto order = [](const StoredRow& row) {
    return std::make_tuple(static_cast<int>(row.table), row.layer, static_cast<int>(row.block),
                           model::role_rank(row.role), std::string_view(row.role), row.expert,
                           row.slice, std::string_view(row.tensor));
  };
  return order(a) < order(b);
}

StoredRow row_of(const model::MatrixRecord& record) {
  StoredRow row;
  row.table = record.table;
  // HDF5 strings are NUL-terminated UTF-8; names from files are any bytes.
  row.tensor = printable(record.tensor);
  row.slice = record.slice;
  row.layer = record.layer;
  row.expert = record.expert;
  row.block = record.block;
  row.role = printable(record.role);
  row.shard = printable(record.shard);
  row.rows = record.rows;
  row.cols = record.cols;
  row.encoding = printable(record.encoding.label);
  row.rank = record.product == nullptr ? 0 : record.product->rank();
  row.reason = kNotYetMeasured;
  return row;
}

void set_outcome(StoredRow& row, ResultRow&& result, bool keep_spectrum) {
  if (result.status != Status::kMeasured) {
    // Only a measured row has numbers: what a job knew before it found out is no result.
    result.cells.clear();
    result.arrays.clear();
  }
  row.status = result.status;
  row.reason = printable(result.reason);
  row.error_class = std::move(result.error_class);
  row.method = std::move(result.method);
  row.escalated = result.escalated;
  row.sigma_error = result.sigma_error;
  row.values = result.values;
  row.nulls = result.nulls;
  row.sign_flip = result.sign_flip;
  row.bounds = std::move(result.bounds);
  row.moments = result.moments;
  row.has_moments = result.moments.count > 0 || result.moments.nonfinite > 0;
  row.sample = result.sample;
  row.cells = std::move(result.cells);
  auto bulk = std::make_shared<RowBulk>();
  if (keep_spectrum) {
    bulk->sigma = std::move(result.sigma);
  }
  bulk->vectors = std::move(result.vectors);
  bulk->arrays = std::move(result.arrays);
  row.sigma_count = static_cast<std::int64_t>(bulk->sigma.size());
  row.vector_count = bulk->vectors ? bulk->vectors->count : 0;
  row.bulk = {.memory = std::move(bulk), .source = -1, .row = -1};
}

int outcome_rank(Status status) {
  switch (status) {
    case Status::kMeasured:
    case Status::kNotFinite:
      return 4;
    case Status::kNotConverged:
      return 3;
    case Status::kUnsupported:
      return 2;
    case Status::kFailed:
      return 1;
    case Status::kSkipped:
      break;
  }
  return 0;
}

bool is_settled(Status status) { return status != Status::kFailed && status != Status::kSkipped; }

bool is_failure(Status status) {
  return status == Status::kNotConverged || status == Status::kUnsupported ||
         status == Status::kFailed;
}

}  // namespace vindex::results
