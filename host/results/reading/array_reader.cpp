// Owns reading an array of a row.
#include "array_reader.hpp"

#include "table_rows.hpp"

#include "results/schema/cell_description.hpp"
#include "results/schema/present_arrays.hpp"
#include <vindex/error.hpp>

#include <utility>

namespace vindex::results {

namespace {

/// Of one array of a row: 8192 experts squared.
constexpr std::uint64_t kMaxElements = 1U << 26U;

}  // namespace

ArrayCell ArrayReader::read(std::int64_t row, std::size_t number) {
  if (!cells_) {
    FileDescription description;
    description.schema = schema_.id;
    describe_cells(file_, schema_, description);
    cells_ = std::move(description);
  }
  auto found = arrays_.find(number);
  if (found == arrays_.end()) {
    const std::vector<PresentArray> arrays = present_arrays(*cells_);
    for (const PresentArray& array : arrays) {
      if (array.number != number) {
        continue;
      }
      h5::Dataset dataset = file_.open_dataset(array.path);
      h5::Shape wanted = {
          static_cast<std::uint64_t>(row_count(file_, schema_, model::ResultTable::kMatrix))};
      wanted.insert(wanted.end(), array.shape.begin(), array.shape.end());
      if (dataset.shape() != wanted) {
        throw FormatError("E-RESULTS-SCHEMA", printable(file_.label() + " " + array.path),
                          "wrong shape");
      }
      found = arrays_.emplace(number, std::move(dataset)).first;
    }
  }
  if (found == arrays_.end()) {
    return {};
  }
  const h5::Dataset& dataset = found->second;
  std::uint64_t width = 1;
  for (std::size_t i = 1; i < dataset.shape().size(); ++i) {
    width *= dataset.shape()[i];
  }
  if (width > kMaxElements) {
    throw FormatError("E-RESULTS-SCHEMA", printable(file_.label()), "an array of impossible size");
  }
  const auto read = [&](auto values) {
    dataset.read<typename decltype(values)::value_type>(static_cast<std::uint64_t>(row), 1, values);
    return ArrayCell(std::move(values));
  };
  return schema_.cells->arrays[number].float32 ? read(std::vector<float>(width))
                                               : read(std::vector<double>(width));
}

}  // namespace vindex::results
