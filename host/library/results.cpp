// Owns reading a results file through the library: rows, columns by name and type, spectra.
#include "access.hpp"

#include "core/text/nearest_name.hpp"
#include "results/reading/query.hpp"

#include <fmt/format.h>

#include <cmath>
#include <numeric>
#include <type_traits>

namespace vindex {

struct v0::Results::State {
  explicit State(const std::string& path) : file(path), columns(file.columns()) {}
  results::ResultsFile file;
  std::vector<results::ColumnInfo> columns;
  std::vector<Matrix> rows;
  std::vector<std::int64_t> numbers;  ///< of the rows: 0, 1, ...

  /// `name` as it is stored, and which of its values are asked for.
  struct Asked {
    results::ColumnInfo column;
    std::size_t element = 0;
    bool whole = true;
  };
  Asked find(std::string_view name) const {
    std::vector<std::string> names;
    for (const results::ColumnInfo& column : columns) {
      if (column.name == name) {
        return {column};
      }
      names.push_back(column.name);
    }
    for (const results::ColumnInfo& column : columns) {
      for (std::size_t i = 0; column.width > 1 && i < column.width; ++i) {
        names.push_back(results::element_name(column.name, column.width, i));
        if (names.back() == name) {
          return {column, i, false};
        }
      }
    }
    const std::string guess = did_you_mean(std::string(name), names);
    throw UsageError("E-COLUMN", fmt::format("no column `{}`{}{}", printable(std::string(name)),
                                             guess.empty() ? "" : "; ", guess));
  }
};

v0::Results v0::read(const std::filesystem::path& path) {
  const auto state = std::make_shared<Results::State>(path.string());
  for (const results::QueriedRow& row : state->file.rows()) {
    state->rows.push_back(
        {.tensor = row.tensor,
         .layer = row.layer,
         .block = std::string(model::block_name(row.block)),
         .role = row.role,
         .expert = row.expert,
         .slice = row.slice,
         .rows = row.rows,
         .cols = row.cols,
         .encoding = row.encoding,
         .unsupported = row.status == MatrixStatus::kUnsupported ? row.reason : std::string()});
  }
  state->numbers.resize(state->rows.size());
  std::iota(state->numbers.begin(), state->numbers.end(), 0);
  Results results;
  results.state_ = state;
  return results;
}

std::int64_t v0::Results::size() const { return static_cast<std::int64_t>(state_->rows.size()); }

std::string v0::Results::status() const {
  return state_->file.is_complete() ? "complete" : "partial";
}

std::span<const v0::Matrix> v0::Results::rows() const { return state_->rows; }

std::vector<std::string> v0::Results::columns() const {
  std::vector<std::string> names;
  for (const results::ColumnInfo& column : state_->columns) {
    names.push_back(column.name);
  }
  return names;
}

template <typename T>
std::vector<T> v0::Results::column(std::string_view name) const {
  const State::Asked asked = state_->find(name);
  if constexpr (std::is_same_v<T, std::string>) {
    if (name == "status") {  // stored as a number
      std::vector<std::string> names;
      for (const results::QueriedRow& row : state_->file.rows()) {
        names.push_back(results::kStatusNames[static_cast<std::size_t>(row.status)]);
      }
      return names;
    }
    return state_->file.texts(asked.column.name, state_->numbers);
  } else {
    if (std::is_integral_v<T> && asked.column.type != results::ValueType::kInteger) {
      throw UsageError("E-COLUMN", fmt::format("column `{}` holds no integers", asked.column.name));
    }
    const std::vector<double> values = state_->file.numbers(asked.column.name, state_->numbers);
    std::vector<T> out;
    const std::size_t step = asked.whole ? 1 : asked.column.width;
    for (std::size_t i = asked.element; i < values.size(); i += step) {
      if constexpr (std::is_integral_v<T>) {
        out.push_back(std::isnan(values[i]) ? T{-1} : static_cast<T>(values[i]));
      } else {
        out.push_back(static_cast<T>(values[i]));
      }
    }
    return out;
  }
}

template std::vector<double> v0::Results::column(std::string_view) const;
template std::vector<float> v0::Results::column(std::string_view) const;
template std::vector<std::int32_t> v0::Results::column(std::string_view) const;
template std::vector<std::int64_t> v0::Results::column(std::string_view) const;
template std::vector<std::string> v0::Results::column(std::string_view) const;

std::vector<double> v0::Results::spectrum(std::int64_t row) const {
  return state_->file.sigma(row);
}

std::string v0::Results::attribute(const std::string& name) const {
  return state_->file.attribute(name);
}

}  // namespace vindex
