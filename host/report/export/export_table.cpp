// Owns the exports `csv` and `json`: every column of /matrix/, of a derived table, or of the table
// of another kind of file as it is; json also its arrays.
#include "export_table.hpp"

#include "report/text/text_sink.hpp"
#include "results/reading/query.hpp"
#include "results/schema/present_arrays.hpp"
#include "results/schema/table_columns.hpp"

#include <fmt/format.h>

#include <cmath>

namespace vindex::report {

namespace {

std::vector<results::Column> columns_of(const ExportInput& input) {
  return results::table_columns(input.reader.schema(), input.reader.file(), input.table);
}

/// What a row is called: "matrix", "pair", "group", "entry".
const char* row_name(const ExportInput& input) { return input.reader.schema().dimension; }

std::string exported_text(const results::Column& column, const results::StoredRow& row,
                          std::size_t i, bool json) {
  const double value = column.number(row, i);
  if (column.name == "status") {
    const std::string name = results::kStatusNames[static_cast<std::size_t>(value)];
    return json ? json_string(name) : name;
  }
  return json ? json_number(value) : csv_number(value);
}

/// "[1,2,null]"
template <typename T>
std::string list_text(std::span<const T> values) {
  std::string out = "[";
  for (const T value : values) {
    out += fmt::format("{}{}", out.size() == 1 ? "" : ",", json_number(static_cast<double>(value)));
  }
  return out + "]";
}
template <typename T>
std::string list_text(const std::vector<T>& values) {
  return list_text(std::span<const T>(values));
}

/// An array of a row: a list, or a list of lists; null where there is none.
template <typename T>
std::string nested_text(const std::vector<T>& values, const results::h5::Shape& shape) {
  if (shape.size() == 1) {
    return list_text(values);
  }
  std::string out = "[";
  const std::size_t width = values.size() / shape[0];
  for (std::size_t i = 0; i < shape[0]; ++i) {
    out += (i == 0 ? "" : ",") + list_text(std::span(values).subspan(i * width, width));
  }
  return out + "]";
}

std::string array_text(ExportInput& input, const results::StoredRow& row,
                       const results::PresentArray& array) {
  const results::ArrayCell cell = row.status == MatrixStatus::kSkipped
                                      ? results::ArrayCell()
                                      : input.reader.arrays().read(row.bulk.row, array.number);
  return cell.empty()            ? "null"
         : array.column->float32 ? nested_text(cell.floats, array.shape)
                                 : nested_text(cell.doubles, array.shape);
}

}  // namespace

void export_csv(ExportInput& input, const std::string& target) {
  const std::vector<results::Column> columns = columns_of(input);
  TextSink sink(target);
  std::string line = row_name(input);
  for (const results::Column& column : columns) {
    for (std::size_t i = 0; i < column.width; ++i) {
      line +=
          fmt::format(",{}", column.width > 1 ? results::element_name(column.name, column.width, i)
                                              : column.name);
    }
  }
  sink.write(line + "\n");
  for (std::size_t r = 0; r < input.rows.size(); ++r) {
    const results::StoredRow& row = input.rows[r];
    line = std::to_string(r);
    for (const results::Column& column : columns) {
      if (column.is_text()) {
        line += fmt::format(",{}", csv_field(column.text(row)));
        continue;
      }
      for (std::size_t i = 0; i < column.width; ++i) {
        line += fmt::format(",{}", exported_text(column, row, i, false));
      }
    }
    sink.write(line + "\n");
  }
  sink.finish();
}

void export_json(ExportInput& input, const std::string& target) {
  const std::vector<results::Column> columns = columns_of(input);
  const results::FileDescription description = input.reader.description();
  const bool has_spectra = input.reader.schema().has_spectra;
  const std::vector<results::PresentArray> arrays = results::present_arrays(description);
  TextSink sink(target);
  sink.write(
      fmt::format(R"({{"schema":"vindex-export/1","schema_version":{},"status":{},"model":{},)",
                  json_string(input.reader.header().schema_version),
                  json_string(input.reader.header().status), json_string(description.model)));
  if (has_spectra) {
    sink.write(fmt::format(R"("mode":{},"backend":{},"k":[1,2,4,8,16,32,64,128,256],"{}":[)",
                           json_string(description.mode), json_string(description.backend),
                           model::table_name(input.table)));
  } else {
    if (!description.other_model.empty()) {
      sink.write(fmt::format(R"("model_b":{},)", json_string(description.other_model)));
    }
    sink.write(fmt::format(R"("kind":{},"backend":{},)",
                           json_string(results::writing_command(description.schema)),
                           json_string(description.backend)));
    for (const auto& [name, values] : description.scales) {
      sink.write(fmt::format(
          R"("{}":{},)", name,
          values.integers.empty() ? list_text(values.doubles) : list_text(values.integers)));
    }
    sink.write(fmt::format(R"("{}":[)", row_name(input)));
  }
  for (std::size_t r = 0; r < input.rows.size(); ++r) {
    const results::StoredRow& row = input.rows[r];
    std::string object = fmt::format("{}\n{{\"{}\":{}", r == 0 ? "" : ",", row_name(input), r);
    for (const results::Column& column : columns) {
      object += fmt::format(",\"{}\":", column.name);
      if (column.is_text()) {
        object += json_string(column.text(row));
        continue;
      }
      if (column.width == 1) {
        object += exported_text(column, row, 0, true);
        continue;
      }
      for (std::size_t i = 0; i < column.width; ++i) {
        object += fmt::format("{}{}", i == 0 ? "[" : ",", exported_text(column, row, i, true));
      }
      object += "]";
    }
    for (const results::PresentArray& array : arrays) {
      object += fmt::format(",\"{}\":{}", array.column->name, array_text(input, row, array));
    }
    sink.write(object + "}");
  }
  sink.write("\n]}\n");
  sink.finish();
}

}  // namespace vindex::report
