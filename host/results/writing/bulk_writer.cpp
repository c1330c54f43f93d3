// Owns writing spectra and vectors in chunks of rows.
#include "bulk_writer.hpp"

#include "packed_rows.hpp"

#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <utility>

namespace vindex::results {

namespace {

using Members = std::vector<std::int64_t>;  ///< rows of the table

/// `<group>/<name>` = first .. first + count - 1 as a dimension scale.
void write_counter(h5::File& file, const std::string& path, std::int32_t first, std::uint64_t count,
                   const std::string& long_name) {
  std::vector<std::int32_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), first);
  h5::Dataset dataset =
      file.make_dataset(path, h5::Type::kInt32, {count}, {.chunk = {count}, .deflate = 1});
  write_packed_values<std::int32_t>(dataset, count, count, numbers);
  dataset.set_attribute("long_name", long_name);
  dataset.make_scale(path.substr(path.rfind('/') + 1));
}

/// `<group>/matrix`; the path of the scale of the group's rows. Below a table, whose dimension is
/// `matrix`, one of another length has another name: xarray.open_datatree wants that of groups and
/// those in them.
std::string write_members(h5::File& file, const std::string& group, const Members& members,
                          model::ResultTable table) {
  const std::string path = group + "/matrix";
  h5::Dataset dataset = file.make_dataset(path, h5::Type::kInt64, {members.size()},
                                          {.chunk = {members.size()}, .deflate = 1});
  write_packed_values<std::int64_t>(dataset, members.size(), members.size(), members);
  dataset.set_attribute("long_name", "row of " + table_group(table) + "/ that each row belongs to");
  if (!is_derived(table)) {
    dataset.make_scale("matrix");
    return path;
  }
  std::string scale = group + "/member";
  write_counter(file, scale, 0, members.size(), "number of the row");
  file.attach_scales(dataset, std::span<const std::string>(&scale, 1));
  return scale;
}

void write_spectrum_group(h5::File& file, const std::string& group, bool part,
                          const Members& members, std::span<const StoredRow* const> rows,
                          BulkSource& bulk) {
  const auto width = static_cast<std::uint64_t>(rows[members.front()]->sigma_count);
  file.make_group(group);
  const std::string member = write_members(file, group, members, rows[members.front()]->table);
  const std::string index = group + "/i";
  write_counter(file, index, 1, width, "number of the singular value, from 1");
  const std::string path = group + "/sigma";
  const std::uint64_t step =
      std::min<std::uint64_t>(rows_per_chunk(width * sizeof(double)), members.size());
  const h5::Layout layout = {.chunk = {part ? 1 : step, width}, .deflate = part ? 0 : 1};
  h5::Dataset dataset =
      file.make_dataset(path, h5::Type::kFloat64, {members.size(), width}, layout);
  const auto read_rows = [&](std::uint64_t first, std::span<double> block) {
    const std::uint64_t count = std::min<std::uint64_t>(step, members.size() - first);
    for (std::uint64_t i = 0; i < count; ++i) {
      const StoredRow& row = *rows[members[first + i]];
      expects(static_cast<std::uint64_t>(row.sigma_count) == width,
              "spectra of one group differ in length");
      bulk.sigma(row, block.subspan(i * width, width));
    }
    return count;
  };
  if (part) {
    std::vector<double> block(step * width);
    for (std::uint64_t first = 0; first < members.size(); first += step) {
      const std::uint64_t count = read_rows(first, block);
      dataset.write<double>(first, count, std::span<const double>(block).first(count * width));
      file.check_storage();
    }
  } else {
    write_packed_rows<double>(file, dataset, members.size(), step, step * width, read_rows);
  }
  const std::array<std::string, 2> scales = {member, index};
  file.attach_scales(dataset, scales);
  dataset.set_attribute("long_name", "singular values, largest first");
  dataset.set_attribute("units", "1");
}

struct VectorGroup {
  Members members;
  std::uint64_t rows = 0, cols = 0, count = 0;
};

template <typename T>
h5::Dataset vector_dataset(h5::File& file, const std::string& path, const h5::Shape& shape,
                           const std::string& long_name) {
  h5::Shape chunk = shape;
  chunk[0] = 1;
  h5::Dataset dataset = file.make_dataset(path, h5::type_of<T>(), shape, {.chunk = chunk});
  dataset.set_attribute("long_name", long_name);
  dataset.set_attribute("units", "1");
  return dataset;
}

/// `values` as the first of `count * width` values, the rest NaN.
template <typename T>
std::vector<T> padded(const std::vector<T>& values, std::uint64_t elements) {
  expects(values.size() <= elements, "more singular vectors than their group holds");
  std::vector<T> out = values;
  out.resize(elements, std::numeric_limits<T>::quiet_NaN());
  return out;
}

void write_vector_group(h5::File& file, const std::string& group, const VectorGroup& shape,
                        std::span<const StoredRow* const> rows, BulkSource& bulk) {
  const std::uint64_t n = shape.members.size();
  const std::uint64_t k = shape.count;
  file.make_group(group);
  const std::string member =
      write_members(file, group, shape.members, rows[shape.members.front()]->table);
  write_counter(file, group + "/vector", 1, k, "number of the singular value, from 1");
  write_counter(file, group + "/col", 0, shape.cols, "input of the matrix");
  write_counter(file, group + "/row", 0, shape.rows, "output of the matrix");
  h5::Dataset right =
      vector_dataset<float>(file, group + "/right", {n, k, shape.cols},
                            "right singular vectors, each one's largest component positive");
  h5::Dataset left =
      vector_dataset<float>(file, group + "/left", {n, k, shape.rows}, "left singular vectors");
  h5::Dataset sigma =
      vector_dataset<double>(file, group + "/sigma", {n, k}, "singular values of the vectors");
  h5::Dataset residual =
      vector_dataset<double>(file, group + "/residual", {n, k},
                             "larger norm of W v - sigma u and W^T u - sigma v, as stored");
  h5::Dataset gap = vector_dataset<double>(file, group + "/gap", {n, k},
                                           "distance to the nearest other singular value");
  for (std::uint64_t i = 0; i < n; ++i) {
    const SingularVectors vectors = bulk.vectors(*rows[shape.members[i]]);
    right.write<float>(i, 1, padded(vectors.right, k * shape.cols));
    left.write<float>(i, 1, padded(vectors.left, k * shape.rows));
    sigma.write<double>(i, 1, padded(vectors.sigma, k));
    residual.write<double>(i, 1, padded(vectors.residual, k));
    gap.write<double>(i, 1, padded(vectors.gap, k));
    file.check_storage();
  }
  const std::vector<std::string> scales = {member, group + "/vector"};
  for (const h5::Dataset* dataset : {&sigma, &residual, &gap}) {
    file.attach_scales(*dataset, scales);
  }
  file.attach_scales(right, std::array{scales[0], scales[1], group + "/col"});
  file.attach_scales(left, std::array{scales[0], scales[1], group + "/row"});
}

}  // namespace

void write_spectra(h5::File& file, const std::string& prefix, bool part, bool fast,
                   std::span<const StoredRow* const> rows, BulkSource& bulk) {
  std::map<std::pair<std::int64_t, std::int64_t>, Members> groups;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i]->sigma_count > 0) {
      groups[{rows[i]->shorter(), rows[i]->sigma_count}].push_back(static_cast<std::int64_t>(i));
    }
  }
  file.make_group(prefix + "/spectra");
  for (const auto& [key, members] : groups) {
    expects(key.second == (fast ? std::min<std::int64_t>(key.first, 64) : key.first),
            "a spectrum of unexpected length");
    write_spectrum_group(file, prefix + "/spectra/" + spectrum_group(*rows[members.front()], fast),
                         part, members, rows, bulk);
  }
}

void write_vectors(h5::File& file, const std::string& prefix,
                   std::span<const StoredRow* const> rows, BulkSource& bulk) {
  // Keyed by (rows, cols): gate and down of one expert share p and n but not their orientation.
  std::map<std::pair<std::int64_t, std::int64_t>, VectorGroup> groups;
  std::set<std::pair<std::int64_t, std::int64_t>> shapes;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const StoredRow& row = *rows[i];
    shapes.emplace(row.rows, row.cols);
    if (row.vector_count > 0) {
      VectorGroup& group = groups[{row.rows, row.cols}];
      group.members.push_back(static_cast<std::int64_t>(i));
      group.rows = static_cast<std::uint64_t>(row.rows);
      group.cols = static_cast<std::uint64_t>(row.cols);
      group.count =
          std::max<std::uint64_t>(group.count, static_cast<std::uint64_t>(row.vector_count));
    }
  }
  if (groups.empty()) {
    return;
  }
  file.make_group(prefix + "/vectors");
  for (const auto& [shape, group] : groups) {
    const auto [height, width] = shape;
    const bool clash = height > width && shapes.contains({width, height});
    write_vector_group(file,
                       fmt::format("{}/vectors/p{}_n{}{}", prefix, std::min(height, width),
                                   std::max(height, width), clash ? "_tall" : ""),
                       group, rows, bulk);
  }
}

std::uint64_t min_bytes(std::span<const StoredRow* const> rows) {
  std::uint64_t bytes = 0;
  for (const StoredRow* row : rows) {
    // Sorted mantissas keep about three quarters of their size under shuffle and deflate.
    bytes += static_cast<std::uint64_t>(row->sigma_count) * sizeof(double) / 2;
    bytes += static_cast<std::uint64_t>(row->vector_count) *
             static_cast<std::uint64_t>(row->rows + row->cols) * sizeof(float);
  }
  return bytes;
}

}  // namespace vindex::results
