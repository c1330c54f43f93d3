// Owns keys of rows, their order, and which of two outcomes is the better.
#include "stored_row.hpp"

#include "model/products/product.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>

namespace vindex::results {

std::string row_key(const std::string& tensor, std::int32_t slice) {
  return tensor + "#" + std::to_string(slice);
}

std::string row_name(const RowIdentity& row) {
  return escaped(row.slice < 0 ? row.tensor : row_key(row));
}

bool row_before(const RowIdentity& a, const RowIdentity& b) {
  const auto order = [](const RowIdentity& row) {
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
  row.tensor = escaped(record.tensor);
  row.slice = record.slice;
  row.layer = record.layer;
  row.expert = record.expert;
  row.block = record.block;
  row.role = escaped(record.role);
  row.shard = escaped(record.shard);
  row.rows = record.rows;
  row.cols = record.cols;
  row.encoding = escaped(record.encoding.label);
  row.draw = record.draw;
  row.draw_of = record.draw_of;
  row.rank = record.product == nullptr ? 0 : record.product->rank();
  row.reason = kNotYetMeasured;
  return row;
}

void set_outcome(StoredRow& row, ResultRow&& result, bool keep_spectrum, bool keep_numbers) {
  auto bulk = std::make_shared<RowBulk>(std::move(static_cast<RowBulk&>(result)));
  static_cast<RowOutcome&>(row) = std::move(static_cast<RowOutcome&>(result));
  row.reason = printable(row.reason);
  if (row.status != MatrixStatus::kMeasured && !keep_numbers) {
    // What a job knew before it found out is no result.
    row.cells.clear();
    bulk->arrays.clear();
  }
  if (!keep_spectrum) {
    bulk->sigma = {};
  }
  row.sigma_count = static_cast<std::int64_t>(bulk->sigma.size());
  row.vector_count = bulk->vectors ? bulk->vectors->count : 0;
  row.bulk = {.memory = std::move(bulk), .source = -1, .row = -1};
}

int outcome_rank(MatrixStatus status) {
  switch (status) {
    case MatrixStatus::kMeasured:
    case MatrixStatus::kNotFinite:
      return 4;
    case MatrixStatus::kNotConverged:
      return 3;
    case MatrixStatus::kUnsupported:
      return 2;
    case MatrixStatus::kFailed:
      return 1;
    case MatrixStatus::kSkipped:
      break;
  }
  return 0;
}

bool is_settled(MatrixStatus status) {
  return status != MatrixStatus::kFailed && status != MatrixStatus::kSkipped;
}

bool is_failure(MatrixStatus status) {
  return status == MatrixStatus::kNotConverged || status == MatrixStatus::kUnsupported ||
         status == MatrixStatus::kFailed;
}

std::string table_group(model::ResultTable table) {
  return "/" + std::string(model::table_name(table));
}

std::string bulk_prefix(model::ResultTable table) {
  return is_derived(table) ? table_group(table) : std::string();
}

std::string resume_group(model::ResultTable table) {
  return is_derived(table) ? "/resume" + table_group(table) : std::string("/resume");
}

std::int64_t drawn_from(std::span<const StoredRow* const> rows) {
  std::map<std::tuple<std::int32_t, model::Block, std::string_view>, std::int64_t> groups;
  bool is_drawn = false;
  for (const StoredRow* row : rows) {
    std::int64_t& all = groups[{row->layer, row->block, row->role}];
    all = std::max<std::int64_t>(all, row->draw_of);
    is_drawn = is_drawn || row->draw_of > 0;
  }
  std::int64_t sum = 0;
  for (const auto& [group, all] : groups) {
    sum += std::max<std::int64_t>(all, 0);
  }
  return is_drawn ? sum : 0;
}

std::span<const StoredRow* const> rows_of(std::span<const StoredRow* const> rows,
                                          model::ResultTable table) {
  const auto first = std::find_if(rows.begin(), rows.end(),
                                  [&](const StoredRow* row) { return row->table >= table; });
  const auto last =
      std::find_if(first, rows.end(), [&](const StoredRow* row) { return row->table > table; });
  return rows.subspan(static_cast<std::size_t>(first - rows.begin()),
                      static_cast<std::size_t>(last - first));
}

std::string spectrum_group(const StoredRow& row, bool fast) {
  return fast ? fmt::format("p{}_top64", row.shorter()) : fmt::format("p{}", row.shorter());
}

StatusCounts count_statuses(std::span<const StoredRow* const> rows) {
  StatusCounts counts;
  counts.total = static_cast<std::int64_t>(rows.size());
  for (const StoredRow* row : rows) {
    counts.measured += row->status == MatrixStatus::kMeasured ? 1 : 0;
    counts.not_finite += row->status == MatrixStatus::kNotFinite ? 1 : 0;
    counts.skipped += row->status == MatrixStatus::kSkipped ? 1 : 0;
    counts.failed += is_failure(row->status) ? 1 : 0;
    counts.escalated += row->escalated ? 1 : 0;
  }
  return counts;
}

}  // namespace vindex::results
