// Owns what a page holds of files whose rows are no spectra: pairs, groups of experts, layers.
// Their columns and arrays as the file has them, and the tables beside them; what would make the
// page too large stays in the file, and the page says how much that is.
#include "page_sections.hpp"
#include "page_values.hpp"

#include "results/reading/source_pool.hpp"
#include "results/schema/present_arrays.hpp"
#include "results/schema/side_table.hpp"
#include "results/schema/table_columns.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vindex::report {

namespace {

/// Base64 text of square arrays that a page holds of one file.
constexpr std::size_t kArrayBytes = std::size_t{4} << 20U;
/// Rows of a table beside (/unpaired/) that a page holds.
constexpr std::size_t kBesideRows = 1000;
/// Numbers of a row in one column that a page holds: principal angles are as many as --k asks for.
constexpr std::size_t kColumnWidth = 64;
/// Arrays of so many numbers have all bits of float32; larger ones four digits.
constexpr std::size_t kExactNumbers = 64 * 64;
constexpr int kFewBits = 14;

/// The column by which rows with square arrays are ranked where the page cannot hold all of them.
std::string_view rank_column(results::FileSchema schema) {
  return schema == results::FileSchema::kExperts   ? "cosine_centred_max"
         : schema == results::FileSchema::kRouting ? "coactivation_lift_max"
                                                   : "";
}

Json numbers_of(const results::Column& column, const std::vector<results::StoredRow>& rows,
                int bits) {
  const std::size_t width = std::min(column.width, kColumnWidth);
  std::vector<double> values;
  values.reserve(rows.size() * width);
  for (const results::StoredRow& row : rows) {
    for (std::size_t i = 0; i < width; ++i) {
      values.push_back(column.number(row, i));
    }
  }
  const bool is_whole = column.type != results::h5::Type::kFloat64;
  Json out = {{"values", is_whole ? packed_integers(values) : packed_reals(values, bits)},
              {"whole", is_whole}};
  if (column.width != 1) {
    out["width"] = width;
    out["width_of_file"] = column.width;
    out["scale"] = column.scale;
  }
  return out;
}

Json texts_of(const results::Schema& schema, const results::Column& column,
              const std::vector<results::StoredRow>& rows) {
  if (column.name == schema.name_column || column.name.starts_with("tensor")) {
    std::vector<std::string> texts;
    texts.reserve(rows.size());
    std::vector<NamedRow> names;
    names.reserve(rows.size());
    for (const results::StoredRow& row : rows) {
      texts.push_back(column.text(row));
      names.push_back({.name = texts.back(), .layer = row.layer, .expert = row.expert});
    }
    return {{"names", packed_names(names)}};
  }
  std::vector<std::string> texts;
  texts.reserve(rows.size());
  for (const results::StoredRow& row : rows) {
    texts.push_back(column.name == "status"
                        ? results::kStatusNames[static_cast<std::size_t>(row.status)]
                        : printable(column.text(row)));
  }
  return {{"texts", packed_texts(texts)}};
}

Json columns_of(PageFile& file, const std::vector<results::StoredRow>& rows) {
  const results::Schema& schema = file.reader.schema();
  const std::vector<results::Column> columns =
      results::table_columns(schema, file.reader.file(), model::ResultTable::kMatrix);
  std::int64_t reals = 0;
  for (const results::Column& column : columns) {
    reals += column.type == results::h5::Type::kFloat64
                 ? static_cast<std::int64_t>(std::min(column.width, kColumnWidth))
                 : 0;
  }
  Json out = Json::object();
  for (const results::Column& column : columns) {
    const bool is_text = column.is_text() || column.name == "status";
    Json& to = out[column.name];
    to = is_text ? texts_of(schema, column, rows) : numbers_of(column, rows, file.bits(reals));
    to["meaning"] = column.long_name;
  }
  return out;
}

std::vector<double> array_of(results::ResultsReader& reader, const results::StoredRow& row,
                             const results::PresentArray& array) {
  const auto wanted = static_cast<std::size_t>(array.elements());
  std::vector<double> values;
  if (row.status != MatrixStatus::kSkipped) {
    const results::ArrayCell cell = reader.arrays().read(row.bulk.row, array.number);
    values.assign(cell.floats.begin(), cell.floats.end());
    values.insert(values.end(), cell.doubles.begin(), cell.doubles.end());
  }
  values.resize(wanted, std::numeric_limits<double>::quiet_NaN());
  return values;
}

/// The values on and above the diagonal, row by row, where the others mirror them; else nothing.
std::vector<double> triangle_of(const std::vector<double>& values, std::size_t side) {
  std::vector<double> triangle;
  triangle.reserve(side * (side + 1) / 2);
  for (std::size_t i = 0; i < side; ++i) {
    for (std::size_t j = i; j < side; ++j) {
      const double value = values[i * side + j];
      const double mirrored = values[j * side + i];
      if (value != mirrored && !(std::isnan(value) && std::isnan(mirrored))) {
        return {};
      }
      triangle.push_back(value);
    }
  }
  return triangle;
}

bool is_square(const results::PresentArray& array) { return array.shape.size() == 2; }

/// The square arrays of a row: {name: {"values", "triangle"}}; null where all is NaN.
Json squares_of(results::ResultsReader& reader, const results::StoredRow& row,
                std::span<const results::PresentArray> arrays) {
  Json out = Json::object();
  for (const results::PresentArray& array : arrays) {
    if (!is_square(array)) {
      continue;
    }
    const std::vector<double> values = array_of(reader, row, array);
    if (std::all_of(values.begin(), values.end(), [](double v) { return std::isnan(v); })) {
      continue;
    }
    const std::vector<double> triangle = array.shape[0] == array.shape[1]
                                             ? triangle_of(values, array.shape[0])
                                             : std::vector<double>();
    const int bits = values.size() <= kExactNumbers ? 24 : kFewBits;
    out[std::string(array.column->name)] = {
        {"triangle", !triangle.empty()},
        {"values", packed_reals(triangle.empty() ? values : triangle, bits)}};
  }
  return out;
}

/// Rows in the order in which their square arrays get into the page.
std::vector<std::size_t> ranked_rows(const results::ResultsReader& reader,
                                     const std::vector<results::StoredRow>& rows) {
  std::vector<std::size_t> order(rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const std::string_view by = rank_column(reader.header().schema);
  for (const results::Column& column :
       results::table_columns(reader.schema(), reader.file(), model::ResultTable::kMatrix)) {
    if (column.name == by) {
      const auto key = [&](std::size_t row) {
        const double value = column.number(rows[row], 0);
        return std::isnan(value) ? -std::numeric_limits<double>::infinity() : value;
      };
      std::stable_sort(order.begin(), order.end(),
                       [&](std::size_t a, std::size_t b) { return key(a) > key(b); });
    }
  }
  return order;
}

void add_arrays(PageFile& file, const std::vector<results::StoredRow>& rows, PageData& out) {
  results::ResultsReader& reader = file.reader;
  const results::FileDescription description = reader.description();
  const std::vector<results::PresentArray> arrays = results::present_arrays(description);
  Json& lists = out.main["lists"] = Json::object();
  Json& names = out.main["squares"] = Json::array();
  for (const results::PresentArray& array : arrays) {
    if (is_square(array)) {
      names.push_back(std::string(array.column->name));
      continue;
    }
    std::vector<double> values;
    for (const results::StoredRow& row : rows) {
      const std::vector<double> more = array_of(reader, row, array);
      values.insert(values.end(), more.begin(), more.end());
    }
    lists[std::string(array.column->name)] = {
        {"width", array.elements()},
        {"values", packed_reals(values, values.size() <= kExactNumbers ? 24 : 18)}};
  }
  Json& scales = out.main["scales"] = Json::object();
  for (const auto& [name, values] : description.scales) {
    scales[name] = values.integers.empty() ? Json(values.doubles) : Json(values.integers);
  }
  std::vector<std::size_t> held;
  std::size_t bytes = 0;
  bool is_full = false;
  std::size_t with_squares = 0;
  for (const std::size_t row : ranked_rows(reader, rows)) {
    if (names.empty()) {
      break;
    }
    // What does not fit is only counted.
    if (is_full) {
      with_squares += rows[row].status == MatrixStatus::kMeasured ? 1U : 0U;
      continue;
    }
    Json squares = squares_of(reader, rows[row], arrays);
    if (squares.empty()) {
      continue;
    }
    ++with_squares;
    bytes += squares.dump().size();
    is_full = bytes > kArrayBytes;
    if (is_full) {
      continue;
    }
    held.push_back(row);
    out.blocks.emplace_back("row-" + std::to_string(row), std::move(squares));
  }
  std::sort(held.begin(), held.end());
  out.main["squares_held"] = held;
  out.main["squares_of"] = with_squares;
}

Json side_values(const results::SideColumn& column, std::size_t count) {
  return std::visit(
      [&]<typename T>(const std::vector<T>& values) {
        const std::span<const T> kept = std::span(values).first(count);
        if constexpr (std::is_same_v<T, std::string>) {
          return Json::list(kept, [](const std::string& text) { return Json(printable(text)); });
        } else {
          return Json::list(kept, [](T value) { return Json(value); });
        }
      },
      column.values);
}

void add_beside(PageFile& file, const std::vector<results::StoredRow>& rows, PageData& out) {
  const results::FileDescription description = file.reader.description();
  Json& attributes = out.main["attributes"] = Json::object();
  const auto add = [&](const results::RunAttribute& attribute) {
    attributes[attribute.name] = std::visit(
        []<typename T>(const T& value) {
          if constexpr (std::is_same_v<T, std::string>) {
            return Json(printable(value));
          } else {
            return Json(value);
          }
        },
        attribute.value);
  };
  std::for_each(description.attributes.begin(), description.attributes.end(), add);
  Json& tables = out.main["tables"] = Json::object();
  const results::Schema& schema = file.reader.schema();
  if (schema.beside == nullptr) {
    return;
  }
  std::vector<const results::StoredRow*> pointers;
  for (const results::StoredRow& row : rows) {
    pointers.push_back(&row);
  }
  results::ReaderSource source(file.reader);
  const results::SideTables beside = schema.beside(description, pointers, source, true);
  std::for_each(beside.attributes.begin(), beside.attributes.end(), add);
  for (const results::SideTable& table : beside.tables) {
    const auto count = std::min(static_cast<std::size_t>(table.rows), kBesideRows);
    Json& to = tables[table.group.substr(1)] = {{"count", table.rows}};
    for (const results::SideColumn& column : table.columns) {
      to[column.name] = side_values(column, count);
    }
  }
}

}  // namespace

void add_cells(PageFile& file, PageData& out) {
  const std::vector<results::StoredRow> rows = file.reader.rows(0);
  out.main["count"] = rows.size();
  out.main["columns"] = columns_of(file, rows);
  add_arrays(file, rows, out);
  add_beside(file, rows, out);
}

}  // namespace vindex::report
