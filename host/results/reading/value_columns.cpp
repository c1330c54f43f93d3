// Owns reading such columns, and gathering them from several files.
#include "value_columns.hpp"

#include "table_rows.hpp"

#include "core/constants.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <limits>
#include <utility>

namespace vindex::results {

namespace {

template <typename T>
std::vector<double> read_numbers(const h5::Dataset& dataset, std::size_t count, bool has_missing) {
  std::vector<T> stored(count);
  dataset.read<T>(0, dataset.side(0), stored);
  std::vector<double> out(count);
  std::transform(stored.begin(), stored.end(), out.begin(), [&](T value) {
    return has_missing && value == T{-1} ? kNaN : static_cast<double>(value);
  });
  return out;
}

std::vector<double> read_column(const h5::File& file, const std::string& path, std::size_t width) {
  const h5::Dataset dataset = file.open_dataset(path);
  const std::size_t count = dataset.side(0) * width;
  const bool has_missing = file.has_attribute(path, "_FillValue");
  if (dataset.type() == h5::Type::kString) {
    throw FormatError("E-RESULTS-SCHEMA", printable(file.label() + " " + path), "no numbers");
  }
  return h5::visit_number(dataset.type(), [&](auto zero) {
    using T = decltype(zero);
    return read_numbers<T>(dataset, count, has_missing && std::is_integral_v<T>);
  });
}

}  // namespace

std::size_t column_width(const h5::File& file, const std::string& group, const std::string& name) {
  const std::string path = group + "/" + name;
  if (!file.exists(path)) {
    return 0;
  }
  h5::Shape shape;
  try {
    const h5::Dataset dataset = file.open_dataset(path);
    if (dataset.type() == h5::Type::kString) {
      return 0;
    }
    shape = dataset.shape();
  } catch (const FormatError&) {
    return 0;  // a group, or a type that a later version may write
  }
  const h5::Shape rows = file.open_dataset(group + "/tensor").shape();
  if (rows.size() != 1 || shape.empty() || shape[0] != rows[0]) {
    return 0;
  }
  return shape.size() == 1 ? 1 : shape == h5::Shape{rows[0], kVarAtK.size()} ? kVarAtK.size() : 0;
}

ValueColumns::ValueColumns(SourcePool& pool, model::ResultTable table,
                           std::vector<const StoredRow*> rows)
    : pool_(pool), table_(table), group_(table_group(table)), rows_(std::move(rows)) {
  for (const StoredRow* row : rows_) {
    sources_.insert(row->bulk.source);
  }
  for (const std::int32_t source : sources_) {
    for (std::string& name : pool_.reader(source).file().list(group_)) {
      names_.insert(std::move(name));
    }
  }
}

std::size_t ValueColumns::width(const std::string& name) {
  // A name that is none of the group's own could be a path to elsewhere.
  if (!names_.contains(name)) {
    return 0;
  }
  const auto [place, is_new] = widths_.try_emplace(name, 0);
  if (is_new) {
    for (const std::int32_t source : sources_) {
      place->second =
          std::max(place->second, column_width(pool_.reader(source).file(), group_, name));
    }
  }
  return place->second;
}

std::vector<double> ValueColumns::read(const std::string& name) {
  const std::size_t width = this->width(name);
  std::vector<double> out(rows_.size() * width, kNaN);
  for (const std::int32_t source : sources_) {
    const ResultsReader& reader = pool_.reader(source);
    const h5::File& file = reader.file();
    if (width == 0 || column_width(file, group_, name) != width) {
      continue;
    }
    const std::vector<double> stored = read_column(file, group_ + "/" + name, width);
    const std::int64_t table_begin = first_row(file, reader.schema(), table_);
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (rows_[i]->bulk.source == source) {
        const auto first = static_cast<std::size_t>(rows_[i]->bulk.row - table_begin) * width;
        std::copy_n(stored.begin() + static_cast<std::ptrdiff_t>(first), width,
                    out.begin() + static_cast<std::ptrdiff_t>(i * width));
      }
    }
  }
  return out;
}

}  // namespace vindex::results
