// Owns the order in which a file is written: root, tables, resume columns, run, bulk.
#include "results_writer.hpp"

#include "array_writer.hpp"
#include "bulk_writer.hpp"
#include "table_writer.hpp"

#include "results/schema/cell_description.hpp"
#include "results/schema/table_columns.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <unordered_map>

namespace vindex::results {

namespace {

template <typename T>
void write_numbers(TableWriter& table, const Column& column,
                   std::span<const StoredRow* const> rows) {
  std::vector<T> values;
  values.reserve(rows.size() * column.width);
  const auto add = [&](double value) {
    if constexpr (std::is_integral_v<T>) {
      values.push_back(std::isnan(value) ? T{-1} : static_cast<T>(value));
    } else {
      values.push_back(static_cast<T>(value));
    }
  };
  for (const StoredRow* row : rows) {
    for (std::size_t j = 0; j < column.width; ++j) {
      add(column.number(*row, j));
    }
  }
  table.numbers<T>(column.name, values, column.long_name, column.units, column.width, column.scale,
                   column.missing_is_minus_one ? std::optional(-1) : std::nullopt);
}

void write_column(h5::File& file, TableWriter& table, const Column& column,
                  std::span<const StoredRow* const> rows) {
  if (column.is_text()) {
    std::vector<std::string> values;
    values.reserve(rows.size());
    for (const StoredRow* row : rows) {
      values.push_back(column.text(*row));
    }
    table.strings(column.name, values, column.long_name);
  } else {
    h5::visit_number(column.type,
                     [&](auto zero) { write_numbers<decltype(zero)>(table, column, rows); });
  }
  file.check_storage();
}

/// Number in /matrix/ by row_key().
using MatrixNumbers = std::unordered_map<std::string, std::int64_t>;

MatrixNumbers matrix_numbers(std::span<const StoredRow* const> matrices) {
  MatrixNumbers numbers;
  for (const StoredRow* row : matrices) {
    numbers.emplace(row_key(*row), static_cast<std::int64_t>(numbers.size()));
  }
  return numbers;
}

/// The row of /matrix/ whose weights `row` weights; a product is of no single one.
std::int64_t parent_of(const StoredRow& row, const MatrixNumbers& numbers) {
  if (row.table != model::ResultTable::kImatrix) {
    return -1;
  }
  const auto found = numbers.find(row_key(row));
  return found == numbers.end() ? -1 : found->second;
}

/// The scales of second dimensions that `columns` have.
void write_second_scales(TableWriter& table, const CellTable& declared,
                         const std::vector<Column>& columns) {
  for (const SecondScale& scale : declared.second) {
    const auto column = std::find_if(columns.begin(), columns.end(),
                                     [&](const Column& one) { return one.scale == scale.name; });
    if (column == columns.end()) {
      continue;
    }
    std::vector<std::int32_t> values(scale.values.begin(), scale.values.end());
    if (values.empty()) {
      values.resize(column->width);
      std::iota(values.begin(), values.end(), scale.first);
    }
    table.scale<std::int32_t>(column->scale, values, std::string(scale.long_name));
  }
}

void write_table(h5::File& file, model::ResultTable which, FileExtent kind,
                 const FileDescription& description, std::span<const StoredRow* const> rows,
                 const MatrixNumbers& numbers) {
  const bool bare = kind != FileExtent::kWhole;
  const Schema& schema = schema_of(description.schema);
  const std::string group = table_group(schema, which);
  const std::vector<Column> columns = table_columns(schema, table_layout(description, which));
  std::vector<std::string> coordinates;
  for (const char* name : {"layer", "expert", "block", "role", schema.name_column}) {
    if (std::any_of(columns.begin(), columns.end(),
                    [&](const Column& column) { return column.name == name; })) {
      coordinates.emplace_back(name);
    }
  }
  TableWriter table(file, group, schema.dimension, rows.size(), "row number",
                    std::move(coordinates), bare);
  write_second_scales(table, *schema.cells, columns);
  for (const Column& column : columns) {
    if (column.name == "of_matrix") {
      std::vector<std::int64_t> parents;
      for (const StoredRow* row : rows) {
        parents.push_back(parent_of(*row, numbers));
      }
      table.numbers<std::int64_t>(column.name, parents, column.long_name, column.units);
      continue;
    }
    write_column(file, table, column, rows);
  }
  constexpr std::array<std::int8_t, 6> kFlags = {0, 1, 2, 3, 4, 5};
  file.set_attribute(group + "/status", "flag_values", kFlags);
  file.set_attribute(group + "/status", "flag_meanings", std::string(kStatusMeanings));
}

void write_resume_columns(h5::File& file, const Schema& schema, model::ResultTable which,
                          FileExtent kind, std::span<const StoredRow* const> rows) {
  const bool bare = kind != FileExtent::kWhole;
  // Within /resume/ a dimension of another length has another name (xarray.open_datatree).
  TableWriter table(file, resume_group(which), is_derived(which) ? "row" : schema.dimension,
                    rows.size(), "row of " + table_group(schema, which) + "/", {}, bare);
  const std::vector<Column> columns = resume_columns(schema);
  write_second_scales(table, *schema.cells, columns);
  for (const Column& column : columns) {
    write_column(file, table, column, rows);
  }
}

void write_resume(h5::File& file, FileExtent kind, const FileDescription& description,
                  std::span<const StoredRow* const> matrices) {
  const Schema& schema = schema_of(description.schema);
  write_resume_columns(file, schema, model::ResultTable::kMatrix, kind, matrices);
  std::vector<std::string> names, values;
  for (const auto& [name, value] : description.fingerprint) {
    names.push_back(name);
    values.push_back(value);
  }
  file.write_strings("/resume/fingerprint_name", names);
  file.write_strings("/resume/fingerprint_value", values);
  file.set_attribute("/resume", "part", std::int64_t{kind == FileExtent::kWhole ? 0 : 1});
  if (!schema.has_spectra) {
    write_cell_resume(file, description);
    return;
  }
  file.set_attribute("/resume", "spectra", std::int64_t{description.store_spectra});
  file.set_attribute("/resume", "sign_flip", std::int64_t{description.sign_flip_draws});
  file.set_attribute("/resume", "vectors", std::int64_t{description.vectors});
  if (description.sampled) {
    file.set_attribute("/resume", "sampled", std::int64_t{1});
  }
}

void write_run(h5::File& file, const FileDescription& description) {
  file.make_group("/run");
  file.write_text("/run/command", description.command);
  file.write_text("/run/settings", description.settings);
  file.write_text("/run/inputs", description.inputs);
  file.write_text("/run/environment", description.environment);
  file.write_text("/run/config", description.config);
}

void write_root(h5::File& file, FileExtent kind, const FileDescription& description,
                const StatusCounts& counts, bool all_rows_done) {
  const bool complete = kind == FileExtent::kWhole && all_rows_done;
  const Schema& schema = schema_of(description.schema);
  file.set_attribute("/", "Conventions", std::string("CF-1.11"));
  file.set_attribute("/", "title", description.title);
  file.set_attribute("/", "history", description.history);
  file.set_attribute("/", "schema_name", std::string(schema.name));
  file.set_attribute("/", "schema_version", std::string(schema.version));
  file.set_attribute("/", "status", std::string(complete ? "complete" : "partial"));
  file.set_attribute("/", "matrices_total", counts.total);
  file.set_attribute("/", "matrices_measured", counts.measured);
  file.set_attribute("/", "matrices_failed", counts.failed);
  if (schema.has_spectra) {
    file.set_attribute("/", "matrices_escalated", counts.escalated);
  }
  file.set_attribute("/", "model", description.model);
  if (schema.has_spectra) {
    file.set_attribute("/", "mode", description.mode);
  } else if (!description.other_model.empty()) {
    file.set_attribute("/", "model_b", description.other_model);
  }
  for (const RunAttribute& attribute : description.attributes) {
    std::visit([&](const auto& value) { file.set_attribute("/", attribute.name, value); },
               attribute.value);
  }
  file.set_attribute("/", "backend", description.backend);
}

void write_beside(h5::File& file, const SideTables& beside) {
  for (const SideTable& table : beside.tables) {
    write_side_table(file, table);
  }
  for (const RunAttribute& attribute : beside.attributes) {
    std::visit([&](const auto& value) { file.set_attribute("/", attribute.name, value); },
               attribute.value);
  }
}

}  // namespace

void write_results(Storage& storage, const std::string& label, FileExtent kind,
                   const FileDescription& description, std::span<const StoredRow* const> rows,
                   BulkSource& bulk, const WriteAhead& ahead) {
  expects(
      std::is_sorted(rows.begin(), rows.end(),
                     [](const StoredRow* a, const StoredRow* b) { return a->table < b->table; }),
      "rows of a results file sorted by table");
  const auto matrices = rows_of(rows, model::ResultTable::kMatrix);
  // A part's name has a digest of all its bytes.
  h5::File file = h5::File::create(
      storage, label, kind == FileExtent::kPart ? h5::Digests::kTextAlone : h5::Digests::kAll);
  write_root(file, kind, description, count_statuses(matrices), count_statuses(rows).skipped == 0);
  if (ahead) {
    ahead(file);
  }
  const Schema& schema = schema_of(description.schema);
  const MatrixNumbers numbers =
      matrices.size() < rows.size() ? matrix_numbers(matrices) : MatrixNumbers();
  const auto write_rows = [&](model::ResultTable table) {
    const auto own = rows_of(rows, table);
    write_table(file, table, kind, description, own, numbers);
    if (schema.has_spectra) {
      write_spectra(file, bulk_prefix(table), kind != FileExtent::kWhole,
                    has_top_only(table, description.fast()), own, bulk);
      write_vectors(file, bulk_prefix(table), own, bulk);
    }
  };
  write_rows(model::ResultTable::kMatrix);
  write_array_scales(file, kind != FileExtent::kWhole, description, matrices);
  if (kind != FileExtent::kDescription) {
    write_arrays(file, kind != FileExtent::kWhole, description, matrices, bulk);
  }
  if (kind != FileExtent::kPart) {
    if (schema.beside != nullptr) {
      write_beside(file, schema.beside(description, matrices, bulk, kind == FileExtent::kWhole));
    }
    write_run(file, description);
  }
  write_resume(file, kind, description, matrices);
  for (const model::ResultTable table : kTables) {
    if (is_derived(table) && !rows_of(rows, table).empty()) {
      write_rows(table);
      write_resume_columns(file, schema, table, kind, rows_of(rows, table));
    }
  }
  file.close();
}

}  // namespace vindex::results
