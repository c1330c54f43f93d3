// Owns the check of a results file: of one whose rows are cells, its columns, arrays and their
// scales, the range of every number, and what its kind promises beside that.
#include "validate.hpp"

#include "file_checker.hpp"

#include "results/schema/present_arrays.hpp"
#include "results/schema/table_columns.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>

namespace vindex::results {

namespace {

/// Float32 cosines are rounded.
constexpr double kSlack = 1e-6;

bool is_within(double value, const Range& range) {
  return std::isnan(value) || (value >= range.min - kSlack && value <= range.max + kSlack);
}

class CellChecker final : FileChecker {
 public:
  explicit CellChecker(ResultsReader& reader) : FileChecker(reader) {}

  std::vector<std::string> run() {
    for (const char* name : {"Conventions", "title", "history", "model", "backend"}) {
      require_attribute("/", name);
    }
    attempt([&] {
      layout_ = table_layout(reader_.schema(), file_, model::ResultTable::kMatrix);
      const std::vector<Column> columns = table_columns(reader_.schema(), layout_);
      row_columns(model::ResultTable::kMatrix, columns);
      second_scales(columns);
    });
    attempt([&] {
      description_ = reader_.description();
      scales();
      arrays();
    });
    if (!wrong_.empty()) {
      return wrong_;  // rows cannot be interpreted
    }
    rows_ = reader_.rows(0);
    order(model::ResultTable::kMatrix);
    counts(0);
    for (const StoredRow& row : rows_) {
      numbers(row);
    }
    if (reader_.schema().check != nullptr) {
      attempt([&] { reader_.schema().check(*this); });
    }
    run_texts();
    digests();
    return wrong_;
  }

 private:
  /// Those of second dimensions.
  void second_scales(const std::vector<Column>& columns) {
    std::set<std::string> checked;
    for (const Column& one : columns) {
      if (!one.scale.empty() && checked.insert(one.scale).second) {
        column(group_of(model::ResultTable::kMatrix) + "/" + one.scale, h5::Type::kInt32,
               {one.width}, "");
      }
    }
  }

  void scales() {
    for (const ScaleColumn& scale : reader_.schema().cells->scales) {
      const std::string path = array_path(reader_.schema(), scale.name);
      const auto found = description_.scales.find(std::string(scale.name));
      require(found != description_.scales.end(), path + " is missing");
      if (found != description_.scales.end()) {
        column(path, scale.integer ? h5::Type::kInt64 : h5::Type::kFloat64, {found->second.size()},
               "");
      }
    }
  }

  void arrays() {
    const Schema& schema = reader_.schema();
    const std::uint64_t total =
        file_.open_dataset(fmt::format("{}/{}", schema.table, schema.name_column)).side(0);
    if (*schema.root_scale != '\0') {
      column(array_path(schema, schema.root_scale), h5::Type::kInt64, {total}, "");
    }
    arrays_ = present_arrays(description_);
    for (const PresentArray& array : arrays_) {
      h5::Shape shape = {total};
      shape.insert(shape.end(), array.shape.begin(), array.shape.end());
      column(array.path, array.column->float32 ? h5::Type::kFloat32 : h5::Type::kFloat64, shape,
             array.scales.front());
      attempt([&] {
        const h5::Dataset dataset = file_.open_dataset(array.path);
        for (std::size_t i = 1; i < array.scales.size(); ++i) {
          require(file_.has_scale(dataset, i, array.scales[i]),
                  array.path + ": no dimension scale " + array.scales[i]);
        }
        require(file_.has_attribute(dataset, "units"), array.path + ": attribute units is missing");
      });
    }
  }

  void numbers(const StoredRow& row) {
    const Schema& schema = reader_.schema();
    // The first program that compared kept numbers of pairs whose weights are not finite.
    const bool measured = row.status == MatrixStatus::kMeasured ||
                          (row.status == MatrixStatus::kNotFinite && layout_.minor == 0);
    auto next = row.cells.begin();
    for (const CellColumn& cell : schema.cells->cells) {
      for (std::size_t i = 0; i < cell_count(cell, layout_.scale_length); ++i) {
        const double value = *next++;
        require(is_within(value, cell.range),
                fmt::format("{}/{}: {} of {} is not between {} and {}", schema.table, cell.name,
                            value, row_key(row), cell.range.min, cell.range.max));
        require(measured || std::isnan(value),
                fmt::format("{}/{}: {} is not measured and has a number", schema.table, cell.name,
                            row_key(row)));
      }
    }
    for (const PresentArray& array : arrays_) {
      const ArrayCell cell = reader_.arrays().read(row.bulk.row, array.number);
      const auto check = [&](const auto& values) {
        const auto bad = std::find_if(values.begin(), values.end(), [&](auto value) {
          return !is_within(static_cast<double>(value), array.column->range) ||
                 (!measured && !std::isnan(value));
        });
        if (bad != values.end()) {
          require(false, measured ? fmt::format("{}: {} of {} is not between {} and {}", array.path,
                                                *bad, row_key(row), array.column->range.min,
                                                array.column->range.max)
                                  : fmt::format("{}: {} is not measured and has a number",
                                                array.path, row_key(row)));
        }
      };
      check(cell.floats);
      check(cell.doubles);
    }
  }

  TableLayout layout_;
  std::vector<PresentArray> arrays_;
};

}  // namespace

std::vector<std::string> validate_file(const std::string& path) {
  ResultsReader reader(path, std::nullopt);
  if (reader.header().part) {
    return {printable(path) + " is a part of a run, not a results file"};
  }
  try {
    const auto validate = reader.schema().validate;
    return validate != nullptr ? validate(reader) : CellChecker(reader).run();
  } catch (const FormatError& error) {
    return {error.what()};
  }
}

}  // namespace vindex::results
