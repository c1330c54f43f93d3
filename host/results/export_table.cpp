// Owns the exports `csv` and `json`: every column of /matrix/ or of a derived table as it is.
#include "columns.hpp"
#include "export_formats.hpp"
#include "result_tables.hpp"
#include "text_sink.hpp"

#include <fmt/format.h>

#include <cmath>

namespace vindex::results {

namespace {

std::vector<Column> columns_of(const ExportInput& input) {
  return matrix_columns(column_options(input.reader.file(), input.table));
}

/// "var_at_64", "var_at_64_null" for element `i` of `var_at_k`, `var_at_k_null`.
std::string element_name(const Column& column, std::size_t i) {
  std::string name = column.name;
  const std::size_t at = name.find("_k");
  return name.replace(at + 1, 1, std::to_string(measure::kVarAtK[i]));
}

std::string value_text(const Column& column, const StoredRow& row, std::size_t i, bool json) {
  const double value = column.number(row, i);
  if (column.name == "status") {
    const std::string name = kStatusNames[static_cast<std::size_t>(value)];
    return json ? json_string(name) : name;
  }
  return json ? json_number(value) : csv_number(value);
}

}  // namespace

void export_csv(ExportInput& input, const std::string& target) {
  const std::vector<Column> columns = columns_of(input);
  TextSink sink(target);
  std::string line = "matrix";
  for (const Column& column : columns) {
    for (std::size_t i = 0; i < column.width; ++i) {
      line += fmt::format(",{}", column.width > 1 ? element_name(column, i) : column.name);
    }
  }
  sink.write(line + "\n");
  for (std::size_t r = 0; r < input.rows.size(); ++r) {
    const StoredRow& row = input.rows[r];
    line = std::to_string(r);
    for (const Column& column : columns) {
      if (column.text) {
        line += fmt::format(",{}", csv_field(column.text(row)));
        continue;
      }
      for (std::size_t i = 0; i < column.width; ++i) {
        line += fmt::format(",{}", value_text(column, row, i, false));
      }
    }
    sink.write(line + "\n");
  }
  sink.finish();
}

void export_json(ExportInput& input, const std::string& target) {
  const std::vector<Column> columns = columns_of(input);
  const FileDescription description = input.reader.description();
  TextSink sink(target);
  sink.write(fmt::format(
      R"({{"schema":"vindex-export/1","schema_version":{},"status":{},"model":{},"mode":{},)"
      R"("backend":{},"k":[1,2,4,8,16,32,64,128,256],"{}":[)",
      json_string(input.reader.header().schema_version), json_string(input.reader.header().status),
      json_string(description.model), json_string(description.mode),
      json_string(description.backend), model::table_name(input.table)));
  for (std::size_t r = 0; r < input.rows.size(); ++r) {
    const StoredRow& row = input.rows[r];
    std::string object = fmt::format("{}\n{{\"matrix\":{}", r == 0 ? "" : ",", r);
    for (const Column& column : columns) {
      object += fmt::format(",\"{}\":", column.name);
      if (column.text) {
        object += json_string(column.text(row));
        continue;
      }
      if (column.width == 1) {
        object += value_text(column, row, 0, true);
        continue;
      }
      for (std::size_t i = 0; i < column.width; ++i) {
        object += fmt::format("{}{}", i == 0 ? "[" : ",", value_text(column, row, i, true));
      }
      object += "]";
    }
    sink.write(object + "}");
  }
  sink.write("\n]}\n");
  sink.finish();
}

}  // namespace vindex::results
