// Owns writing arrays in chunks of rows, with their scales.
#include "array_writer.hpp"

#include "packed_rows.hpp"

#include "results/schema/present_arrays.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace vindex::results {

namespace {

template <typename T>
void write_scale(h5::File& file, const std::string& path, std::span<const T> values,
                 std::string_view long_name, bool bare) {
  h5::Layout layout;
  if (!values.empty() && !bare) {
    layout = {.chunk = {values.size()}, .deflate = 1};
  }
  h5::Dataset dataset = file.make_dataset(path, h5::type_of<T>(), {values.size()}, layout);
  if (layout.deflate > 0) {
    write_packed_values<T>(dataset, values.size(), values.size(), values);
  } else {
    dataset.write<T>(0, values.size(), values);
  }
  if (!bare) {
    dataset.set_attribute("long_name", std::string(long_name));
    dataset.make_scale(path.substr(path.rfind('/') + 1));
  }
}

const std::vector<float>& cell_values(const ArrayCell& cell, float /*type*/) { return cell.floats; }
const std::vector<double>& cell_values(const ArrayCell& cell, double /*type*/) {
  return cell.doubles;
}

template <typename T>
void write_rows(h5::File& file, const PresentArray& array, bool part,
                std::span<const StoredRow* const> rows, BulkSource& bulk) {
  const std::uint64_t width = array.elements();
  h5::Shape shape = {rows.size()};
  shape.insert(shape.end(), array.shape.begin(), array.shape.end());
  h5::Layout layout;
  const std::uint64_t step = part ? 1
                                  : std::min<std::uint64_t>(rows_per_chunk(width * sizeof(T)),
                                                            std::max<std::size_t>(rows.size(), 1));
  if (!rows.empty()) {
    layout.chunk = shape;
    layout.chunk[0] = step;
    layout.deflate = part ? 0 : 1;
  }
  h5::Dataset dataset = file.make_dataset(array.path, h5::type_of<T>(), shape, layout);
  const auto fetch = [&](std::uint64_t first, std::span<T> block) {
    std::fill(block.begin(), block.end(), std::numeric_limits<T>::quiet_NaN());
    const std::uint64_t count = std::min<std::uint64_t>(step, rows.size() - first);
    for (std::uint64_t i = 0; i < count; ++i) {
      const ArrayCell cell = bulk.array(*rows[first + i], array.number);
      const std::vector<T>& values = cell_values(cell, T{});
      if (!cell.empty()) {
        expects(values.size() == width, "an array of its column's shape");
        std::copy(values.begin(), values.end(),
                  block.begin() + static_cast<std::ptrdiff_t>(i * width));
      }
    }
  };
  if (part) {
    std::vector<T> block(width);
    for (std::uint64_t row = 0; row < rows.size(); ++row) {
      fetch(row, block);
      dataset.write<T>(row, 1, block);
      file.check_storage();
    }
    return;
  }
  write_packed_rows<T>(file, dataset, rows.size(), step, step * width, fetch);
  file.attach_scales(dataset, array.scales);
  dataset.set_attribute("long_name", std::string(array.column->long_name));
  dataset.set_attribute("units", std::string(array.column->units));
}

}  // namespace

void write_array_scales(h5::File& file, bool bare, const FileDescription& description,
                        std::span<const StoredRow* const> rows) {
  const Schema& schema = schema_of(description.schema);
  if (*schema.root_scale != '\0') {
    std::vector<std::int64_t> layers;
    for (const StoredRow* row : rows) {
      layers.push_back(row->layer);
    }
    write_scale<std::int64_t>(file, array_path(schema, schema.root_scale), layers,
                              "layer of the row", bare);
  }
  for (const ScaleColumn& scale : schema.cells->scales) {
    const auto found = description.scales.find(std::string(scale.name));
    if (found == description.scales.end()) {
      continue;
    }
    const std::string path = array_path(schema, scale.name);
    if (scale.integer) {
      write_scale<std::int64_t>(file, path, found->second.integers, scale.long_name, bare);
    } else {
      write_scale<double>(file, path, found->second.doubles, scale.long_name, bare);
    }
  }
}

void write_arrays(h5::File& file, bool part, const FileDescription& description,
                  std::span<const StoredRow* const> rows, BulkSource& bulk) {
  for (const PresentArray& array : present_arrays(description)) {
    expects(!array.shape.empty(), "scales of every array in RunDescription::scales");
    if (array.column->float32) {
      write_rows<float>(file, array, part, rows, bulk);
    } else {
      write_rows<double>(file, array, part, rows, bulk);
    }
  }
}

}  // namespace vindex::results
