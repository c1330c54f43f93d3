// Owns the writing of one group of equally long columns along one dimension scale.
#pragma once

#include "results/hdf5/chunk_pack.hpp"
#include "results/hdf5/hdf5.hpp"
#include "results/schema/side_table.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace vindex::results {

class TableWriter {
 public:
  /// Makes `group` with the scale `dimension` = 0 .. rows-1. `coordinates` (CF): the columns that
  /// say what a row is, which readers then group and select by. `bare`: numbers alone, without
  /// filters, scales and attributes, for parts, whose digest protects them and which nobody
  /// browses.
  TableWriter(h5::File& file, std::string group, std::string dimension, std::uint64_t rows,
              const std::string& long_name, std::vector<std::string> coordinates, bool bare = false)
      : file_(file),
        group_(std::move(group)),
        dimension_(std::move(dimension)),
        rows_(rows),
        coordinates_(std::move(coordinates)),
        bare_(bare) {
    file_.make_group(group_);
    std::vector<std::int64_t> numbers(rows_);
    std::iota(numbers.begin(), numbers.end(), 0);
    scale(dimension_, std::span<const std::int64_t>(numbers), long_name);
  }

  /// A further scale of this group (`k`).
  template <typename T>
  void scale(const std::string& name, std::span<const T> values, const std::string& long_name) {
    h5::Dataset dataset = put<T>(name, {values.size()}, values);
    if (bare_) {
      return;
    }
    dataset.set_attribute("long_name", long_name);
    dataset.make_scale(name);
  }

  /// `fill`: attribute `_FillValue`, integers only.
  template <typename T>
  void numbers(const std::string& name, std::span<const T> values, const std::string& long_name,
               const std::string& units, std::size_t width = 1, const std::string& second = "",
               std::optional<std::int32_t> fill = std::nullopt) {
    h5::Shape shape = {rows_};
    if (!second.empty()) {
      shape.push_back(width);
    }
    h5::Dataset dataset = put<T>(name, shape, values);
    finish(dataset, name, long_name, units, second);
    if (fill && !bare_) {
      dataset.set_fill_value(*fill);
    }
  }

  void strings(const std::string& name, std::span<const std::string> values,
               const std::string& long_name) {
    h5::Dataset dataset = file_.write_strings(path(name), values);
    finish(dataset, name, long_name, "", "");
  }

  std::string path(const std::string& name) const { return group_ + "/" + name; }

 private:
  template <typename T>
  h5::Dataset put(const std::string& name, const h5::Shape& shape, std::span<const T> values) {
    constexpr std::uint64_t kRows = 16384;
    h5::Layout layout;
    if (shape[0] > 0 && !bare_) {
      layout.chunk = shape;
      layout.chunk[0] = std::min(shape[0], kRows);
      layout.deflate = 1;
    }
    h5::Dataset dataset = file_.make_dataset(path(name), h5::type_of<T>(), shape, layout);
    if (layout.deflate > 0) {
      write_packed_values<T>(dataset, shape[0], layout.chunk[0], values);
    } else {
      dataset.write<T>(0, shape[0], values);
    }
    return dataset;
  }

  void finish(h5::Dataset& dataset, const std::string& name, const std::string& long_name,
              const std::string& units, const std::string& second);

  h5::File& file_;
  std::string group_;
  std::string dimension_;
  std::uint64_t rows_;
  std::vector<std::string> coordinates_;
  bool bare_;
};

/// Writes a whole table, with its scale. Errors: those of TableWriter.
void write_side_table(h5::File& file, const SideTable& table);

}  // namespace vindex::results
