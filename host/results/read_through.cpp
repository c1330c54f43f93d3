// Owns the loop over blocks.
#include "read_through.hpp"

#include <vector>

namespace vindex::results {

namespace {

template <typename T>
void read_blocks(const h5::Dataset& dataset) {
  const h5::Shape& shape = dataset.shape();
  const std::uint64_t rows = dataset.side(0);
  std::uint64_t width = 1;
  for (std::size_t i = 1; i < shape.size(); ++i) {
    width *= shape[i];
  }
  const std::uint64_t step = rows_per_block(width * sizeof(T));
  std::vector<T> block;
  for (std::uint64_t first = 0; first < rows; first += step) {
    const std::uint64_t count = std::min(step, rows - first);
    block.resize(count * width);
    dataset.read<T>(first, count, block);
  }
}

}  // namespace

void read_through(const h5::File& file, const h5::Dataset& dataset, const std::string& path) {
  switch (dataset.type()) {
    case h5::Type::kString:
      file.read_strings(path);
      break;
    case h5::Type::kInt8:
      read_blocks<std::int8_t>(dataset);
      break;
    case h5::Type::kInt32:
      read_blocks<std::int32_t>(dataset);
      break;
    case h5::Type::kInt64:
      read_blocks<std::int64_t>(dataset);
      break;
    case h5::Type::kFloat32:
      read_blocks<float>(dataset);
      break;
    case h5::Type::kFloat64:
      read_blocks<double>(dataset);
      break;
  }
}

}  // namespace vindex::results
