// Owns the columns themselves, and those that pairs share with /matrix/.
#include "pair_columns.hpp"

#include "cell_columns.hpp"
#include "schema.hpp"

#include <vindex/core/error.hpp>
#include <vindex/measure/subspace_overlap.hpp>
#include <vindex/results/pair_cells.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace vindex::results {

namespace {

constexpr const char* kScaleK = "k";

Column pair_text_column(const char* name, const char* long_name, std::string StoredRow::*member) {
  Column column;
  column.name = name;
  column.type = h5::Type::kString;
  column.long_name = long_name;
  column.text = [member](const StoredRow& row) { return row.*member; };
  column.set_text = [member](StoredRow& row, const std::string& value) { row.*member = value; };
  return column;
}

Column cell_column(std::string name, std::string long_name, std::size_t cell) {
  return number_cell(std::move(name), std::move(long_name), cell, kPairAngles);
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

/// `width` cells from `first` on, along the scale `second`.
Column row_column(const char* name, const char* long_name, std::size_t first, std::size_t width,
                  const char* units = "1") {
  Column column;
  column.name = name;
  column.long_name = long_name;
  column.units = units;
  column.width = width;
  column.number = [first](const StoredRow& row, std::size_t i) {
    return first + i < row.cells.size() ? row.cells[first + i]
                                        : std::numeric_limits<double>::quiet_NaN();
  };
  column.set_number = [first](StoredRow& row, std::size_t i, double value) {
    if (row.cells.size() < kPairAngles) {
      row.cells = empty_pair_cells();
    }
    if (row.cells.size() <= first + i) {
      row.cells.resize(first + i + 1, std::numeric_limits<double>::quiet_NaN());
    }
    row.cells[first + i] = value;
  };
  return column;
}

template <typename Table>
void add_cells(const Table& table, std::vector<Column>& columns) {
  for (const PairCellColumn& one : table) {
    Column column =
        cell_column(std::string(one.name), std::string(one.long_name), cell_number(one.cell));
    if (one.is_integer) {
      column.type = h5::Type::kInt32;
      column.missing_is_minus_one = true;
    }
    columns.push_back(std::move(column));
  }
}

void add_delta(std::vector<Column>& columns) {
  add_cells(kPairDeltas, columns);
  columns.push_back(row_column("delta_var_at_k",
                               "share of the squared norm of B - A in its first k singular values",
                               kDeltaVarAtK, measure::kVarAtK.size()));
  columns.push_back(row_column("delta_var_at_k_null", "the same of iid noise of that shape",
                               kDeltaVarAtKNull, measure::kVarAtK.size()));
  columns.push_back(pair_text_column("delta_method", "how the spectrum of B - A was computed",
                                     &StoredRow::method));
}

void add_subspaces(std::size_t directions, bool with_sd, std::vector<Column>& columns) {
  add_cells(kPairOverlaps, columns);
  if (!with_sd) {
    std::erase_if(columns, [](const Column& column) {
      return column.name.starts_with("overlap_") && column.name.ends_with("_null_sd");
    });
  }
  columns.push_back(row_column("angles_right",
                               "principal angles of the top K right singular subspaces, ascending",
                               kPairAngles, directions, "degree"));
  columns.push_back(row_column("angles_left",
                               "principal angles of the top K left singular subspaces, ascending",
                               kPairAngles + directions, directions, "degree"));
}

}  // namespace

std::vector<Column> pair_columns(const PairColumns& groups) {
  const std::vector<Column> all = matrix_columns({});
  std::vector<Column> columns;
  columns.push_back(
      shared_column(all, "tensor", "tensor_a", "logical name of the tensor in model A"));
  columns.push_back(pair_text_column("tensor_b", "logical name of the tensor in model B",
                                     &StoredRow::other_tensor));
  for (const char* name : {"layer", "block", "role", "expert", "slice", "rows", "cols"}) {
    columns.push_back(shared_column(all, name, name));
  }
  columns.push_back(
      shared_column(all, "encoding", "encoding_a", "how the weights of A are stored"));
  columns.push_back(pair_text_column("encoding_b", "how the weights of B are stored",
                                     &StoredRow::other_encoding));
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
  if (groups.spectra) {
    columns.push_back(cell_column("spectrum_difference",
                                  "norm of the difference of both spectra over that of A's",
                                  PairCell::kSpectrumDifference));
    for (std::size_t metric = 0; metric < kPairMetrics.size(); ++metric) {
      add_metric(metric, columns);
    }
  }
  if (groups.delta) {
    add_delta(columns);
  }
  if (groups.subspace > 0) {
    add_subspaces(static_cast<std::size_t>(groups.subspace), groups.overlap_sd, columns);
  }
  return columns;
}

PairColumns pair_columns_of(const FileDescription& description) {
  const auto& optional = description.optional_columns;
  const auto angles = description.scales.find(kAngleScale);
  return {.spectra = description.spectra_joined,
          .delta = std::find(optional.begin(), optional.end(), kDeltaColumns) != optional.end(),
          .subspace = angles == description.scales.end()
                          ? 0
                          : static_cast<std::int64_t>(angles->second.integers.size())};
}

void set_pair_columns(const PairColumns& groups, FileDescription& description) {
  description.spectra_joined = groups.spectra;
  description.optional_columns.clear();
  description.scales.clear();
  if (groups.delta) {
    description.optional_columns.emplace_back(kDeltaColumns);
  }
  for (std::int64_t i = 1; i <= groups.subspace; ++i) {
    description.scales[kAngleScale].integers.push_back(i);
  }
}

std::string second_scale(const Column& column, const std::string& usual) {
  if (column.name.starts_with("angles_")) {
    return kAngleScale;
  }
  return column.width > 1 ? usual : std::string();
}

PairColumns pair_columns_of(const h5::File& file) {
  PairColumns groups;
  groups.overlap_sd = minor_version(file.text_attribute("/", "schema_version")) >= 1;
  groups.spectra = file.exists("/pair/spectrum_difference");
  groups.delta = file.exists("/pair/delta_effective_rank");
  if (file.exists("/pair/angles_right")) {
    const h5::Shape shape = file.open_dataset("/pair/angles_right").shape();
    if (shape.size() != 2 || shape[1] < 1 || shape[1] > measure::kMaxSubspace) {
      throw FormatError("E-RESULTS-SCHEMA", printable(file.label() + " /pair/angles_right"),
                        "wrong shape");
    }
    groups.subspace = static_cast<std::int64_t>(shape[1]);
  }
  return groups;
}

std::vector<PairScale> pair_scales(const PairColumns& groups) {
  std::vector<PairScale> scales;
  if (groups.delta) {
    scales.push_back({.name = kScaleK,
                      .long_name = "number of singular values counted",
                      .values = {measure::kVarAtK.begin(), measure::kVarAtK.end()}});
  }
  if (groups.subspace > 0) {
    PairScale angles{.name = kAngleScale, .long_name = "number of the principal angle, from 1"};
    angles.values.resize(static_cast<std::size_t>(groups.subspace));
    std::iota(angles.values.begin(), angles.values.end(), 1);
    scales.push_back(std::move(angles));
  }
  return scales;
}

}  // namespace vindex::results
