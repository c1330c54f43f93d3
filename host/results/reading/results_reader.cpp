// Owns reading header, identities and rows.
#include "results_reader.hpp"

#include "table_rows.hpp"

#include "core/constants.hpp"
#include "core/text/secrets.hpp"
#include "results/schema/cell_description.hpp"
#include "results/schema/table_columns.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace vindex::results {

namespace {

const Schema& schema_in(const h5::File& file, std::optional<FileSchema> wanted) {
  const std::string where = printable(file.label());
  const std::string name =
      file.has_attribute("/", "schema_name") ? file.text_attribute("/", "schema_name") : "";
  const Schema* const schema = schema_named(name);
  if (schema == nullptr) {
    throw FormatError("E-RESULTS-SCHEMA", where, "an HDF5 file, but no vindex results file");
  }
  if (wanted && *wanted != schema->id) {
    throw FormatError(
        "E-RESULTS-KIND", where,
        fmt::format("a file of `vindex {}` ({}), where one of `vindex {}` is expected",
                    schema->command, schema->name, schema_of(*wanted).command));
  }
  return *schema;
}

FileHeader read_header(const h5::File& file, std::optional<FileSchema> wanted) {
  const std::string where = printable(file.label());
  const Schema& schema = schema_in(file, wanted);
  FileHeader header;
  header.schema = schema.id;
  header.schema_version = file.text_attribute("/", "schema_version");
  std::int64_t major = 0;
  const char* first = header.schema_version.data();
  const char* last = first + header.schema_version.size();
  const auto [end, error] = std::from_chars(first, last, major);
  if (error != std::errc() || end == last || *end != '.' || major < 1) {
    throw FormatError("E-RESULTS-VERSION", where,
                      "schema version '" + printable(header.schema_version) + "' is not a version");
  }
  if (major > schema.major) {
    throw FormatError("E-RESULTS-VERSION", where,
                      fmt::format("written in schema {}, this program knows {}; use a newer vindex",
                                  printable(header.schema_version), schema.version));
  }
  header.status = file.text_attribute("/", "status");
  if (header.status != "complete" && header.status != "partial") {
    throw FormatError("E-RESULTS-SCHEMA", where,
                      "status '" + printable(header.status) + "' is unknown");
  }
  file.check_attributes("/");
  header.part = file.exists("/resume") && file.integer_attribute("/resume", "part") != 0;
  return header;
}

template <typename T>
void fill(const h5::File& file, const std::string& path, const Column& column,
          std::vector<StoredRow>& rows) {
  const std::vector<T> values = read_numbers<T>(
      file, path,
      column.scale.empty() ? h5::Shape{rows.size()} : h5::Shape{rows.size(), column.width});
  auto next = values.begin();
  for (StoredRow& row : rows) {
    for (std::size_t j = 0; j < column.width; ++j) {
      const T stored = *next++;
      const double value =
          column.missing_is_minus_one && stored == T{-1} ? kNaN : static_cast<double>(stored);
      column.set_number(row, j, value);
    }
  }
}

void fill_column(const h5::File& file, const std::string& group, const Column& column,
                 std::vector<StoredRow>& rows) {
  const std::string path = group + "/" + column.name;
  if (!column.is_text()) {
    return h5::visit_number(column.type,
                            [&](auto zero) { fill<decltype(zero)>(file, path, column, rows); });
  }
  const std::vector<std::string> values = file.read_strings(path);
  if (values.size() != rows.size()) {
    throw FormatError("E-RESULTS-SCHEMA", printable(file.label() + " " + path), "wrong shape");
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    column.set_text(rows[i], values[i]);
  }
}

}  // namespace

ResultsReader::ResultsReader(const std::string& path, std::optional<FileSchema> wanted)
    : storage_(std::make_unique<FileStorage>(FileStorage::open(path))),
      file_(h5::File::open(*storage_, path)),
      header_(read_header(file_, wanted)),
      spectra_(file_, schema()),
      arrays_(file_, schema()) {}

Fingerprint ResultsReader::fingerprint() const {
  const std::vector<std::string> names = file_.read_strings("/resume/fingerprint_name");
  const std::vector<std::string> values = file_.read_strings("/resume/fingerprint_value");
  if (names.size() != values.size()) {
    throw FormatError("E-RESULTS-SCHEMA", printable(file_.label()), "the fingerprint is damaged");
  }
  Fingerprint out;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty()) {
      throw FormatError("E-RESULTS-SCHEMA", printable(file_.label()),
                        "the fingerprint is damaged: a line without a name");
    }
    out.emplace_back(names[i], values[i]);
  }
  return out;
}

FileDescription ResultsReader::description() const {
  FileDescription out;
  out.schema = header_.schema;
  out.model = file_.text_attribute("/", "model");
  out.backend = file_.text_attribute("/", "backend");
  out.title = file_.text_attribute("/", "title");
  out.history = file_.text_attribute("/", "history");
  out.fingerprint = fingerprint();
  if (file_.has_attribute("/", "model_b")) {
    out.other_model = file_.text_attribute("/", "model_b");
  }
  if (!schema().has_spectra) {
    describe_cells(file_, schema(), out);
  }
  if (schema().describe != nullptr) {
    schema().describe(*this, out);
  }
  if (file_.exists("/run")) {
    out.command = file_.read_text("/run/command");
    out.settings = file_.read_text("/run/settings");
    out.inputs = file_.read_text("/run/inputs");
    out.environment = file_.read_text("/run/environment");
    out.config = file_.read_text("/run/config");
  }
  // Files of earlier versions may hold addresses as they were given.
  for (std::string* text : {&out.model, &out.title, &out.history, &out.other_model, &out.command,
                            &out.settings, &out.inputs}) {
    *text = without_secrets(*text);
  }
  return out;
}

std::vector<StoredRow> ResultsReader::all_rows(std::int32_t source) {
  std::vector<StoredRow> all = rows(source);
  for (const model::ResultTable table : kTables) {
    if (is_derived(table) && has_table(file_, table)) {
      std::vector<StoredRow> more = rows(source, table);
      all.insert(all.end(), std::make_move_iterator(more.begin()),
                 std::make_move_iterator(more.end()));
    }
  }
  return all;
}

std::vector<StoredRow> ResultsReader::rows(std::int32_t source, model::ResultTable table) {
  return read_rows(source, table, true);
}

std::vector<StoredRow> ResultsReader::identities(std::int32_t source, model::ResultTable table) {
  return read_rows(source, table, false);
}

std::vector<StoredRow> ResultsReader::read_rows(std::int32_t source, model::ResultTable table,
                                                bool whole) {
  if (!has_table(file_, table)) {
    return {};
  }
  const std::string group = table_group(schema(), table);
  std::vector<StoredRow> rows(static_cast<std::size_t>(row_count(file_, schema(), table)));
  const TableLayout layout = table_layout(schema(), file_, table);
  std::vector<Column> columns = table_columns(schema(), layout);
  if (whole) {
    const std::size_t cells = cells_of_row(schema(), layout, columns);
    for (StoredRow& row : rows) {
      row.cells.assign(cells, kNaN);
    }
  } else {
    const ColumnPlace method = &StoredRow::method;
    const ColumnPlace escalated = &StoredRow::escalated;
    const ColumnPlace parent = &StoredRow::of_matrix;
    std::erase_if(columns, [&](const Column& column) {
      return column.is_cell() || column.place == method || column.place == escalated ||
             column.place == parent;
    });
  }
  for (const Column& column : columns) {
    fill_column(file_, group, column, rows);
  }
  const std::string resume = resume_group(table);
  if (whole && file_.exists(resume) && file_.exists(resume + "/error_class")) {
    for (const Column& column : resume_columns(schema())) {
      fill_column(file_, resume, column, rows);
    }
  }
  const std::int64_t first = first_row(file_, schema(), table);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    StoredRow& row = rows[i];
    row.table = table;
    row.bulk = {.memory = nullptr, .source = source, .row = first + static_cast<std::int64_t>(i)};
    row.sigma_count = spectra_.sigma_count(row.bulk.row);
    row.vector_count = spectra_.vector_count(row.bulk.row);
  }
  return rows;
}

}  // namespace vindex::results
