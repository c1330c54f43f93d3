#include "pair_columns.hpp"

#include "cell_columns.hpp"

#include <vindex/results/pair_cells.hpp>

#include <fmt/format.h>

#include <utility>

namespace vindex::results {

namespace {

Column text_column(const char* name, const char* long_name, std::string StoredRow::*member) {
  Column column;
  column.name = name;
  column.type = h5::Type::kString;
  column.long_name = long_name;
  column.text = [member](const StoredRow& row) { return row.*member; };
  column.set_text = [member](StoredRow& row, const std::string& value) { row.*member = value; };
  return column;
}

Column cell_column(std::string name, std::string long_name, std::size_t cell) {
  return number_cell(std::move(name), std::move(long_name), cell, kPairCells);
}

Column cell_column(const char* name, const char* long_name, PairCell cell) {
  return cell_column(std::string(name), std::string(long_name), cell_number(cell));
}

void add_metric(std::size_t number, std::vector<Column>& columns) {
  const PairMetric& metric = kPairMetrics.at(number);
  struct Part {
    PairMetricCell cell;
    const char* suffix;
    const char* meaning;
  };
  constexpr Part kParts[] = {{PairMetricCell::kA, "_a", "{}, of A"},
                             {PairMetricCell::kB, "_b", "{}, of B"},
                             {PairMetricCell::kDifference, "_difference", "{}: B less A"},
                             {PairMetricCell::kNull, "_null", "{}, of iid noise of that shape"}};
  for (const Part& part : kParts) {
    if (part.cell != PairMetricCell::kNull || metric.has_null) {
      columns.push_back(cell_column(fmt::format("{}{}", metric.name, part.suffix),
                                    fmt::format(fmt::runtime(part.meaning), metric.long_name),
                                    cell_number(number, part.cell)));
    }
  }
}

}  // namespace

std::vector<Column> pair_columns(bool spectra) {
  const std::vector<Column> all = matrix_columns({});
  std::vector<Column> columns;
  columns.push_back(
      shared_column(all, "tensor", "tensor_a", "logical name of the tensor in model A"));
  columns.push_back(
      text_column("tensor_b", "logical name of the tensor in model B", &StoredRow::other_tensor));
  for (const char* name : {"layer", "block", "role", "expert", "slice", "rows", "cols"}) {
    columns.push_back(shared_column(all, name, name));
  }
  columns.push_back(
      shared_column(all, "encoding", "encoding_a", "how the weights of A are stored"));
  columns.push_back(
      text_column("encoding_b", "how the weights of B are stored", &StoredRow::other_encoding));
  columns.push_back(shared_column(all, "status", "status", "outcome of the comparison"));
  columns.push_back(shared_column(all, "reason", "reason",
                                  "why a value is missing or the pair was not compared"));
  Column same = cell_column("same_bits", "1 where every decoded float32 is equal, bit for bit",
                            PairCell::kSameBits);
  same.type = h5::Type::kInt8;
  same.units.clear();
  same.missing_is_minus_one = true;
  columns.push_back(std::move(same));
  columns.push_back(
      cell_column("cosine", "inner product of A and B over both norms", PairCell::kCosine));
  columns.push_back(
      cell_column("cosine_null_sd",
                  "standard deviation of the cosine of iid noise of that shape, whose mean is 0",
                  PairCell::kCosineNullSd));
  columns.push_back(cell_column("norm_a", "Frobenius norm of A", PairCell::kNormA));
  columns.push_back(cell_column("norm_b", "Frobenius norm of B", PairCell::kNormB));
  columns.push_back(cell_column("relative_error", "Frobenius norm of B less A over that of A",
                                PairCell::kRelativeError));
  columns.push_back(cell_column("max_abs_difference", "largest difference of two weights",
                                PairCell::kMaxAbsDifference));
  if (spectra) {
    columns.push_back(cell_column("spectrum_difference",
                                  "norm of the difference of both spectra over that of A's",
                                  PairCell::kSpectrumDifference));
    for (std::size_t metric = 0; metric < kPairMetrics.size(); ++metric) {
      add_metric(metric, columns);
    }
  }
  return columns;
}

bool has_pair_spectra(const h5::File& file) { return file.exists("/pair/spectrum_difference"); }

}  // namespace vindex::results
