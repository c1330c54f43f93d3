// Owns batches of rows of the embedding.
#include "store_embedding.hpp"

#include "decoded_part.hpp"
#include "gate_vector_layout.hpp"
#include "vector_writer.hpp"

#include "core/process/parallel.hpp"
#include "core/process/stop.hpp"
#include "engine/units/matrix_loader.hpp"
#include "engine/units/source_watch.hpp"

#include <algorithm>
#include <span>
#include <vector>

namespace vindex::commands {

namespace {

void encode_rows(MatrixInput& input, std::int64_t first, std::int64_t count,
                 decode::ElementType type, std::span<std::byte> out, const std::string& name) {
  const std::vector<float> weights = decoded_rows(input, first, 1, count);
  const std::size_t width = weights.size() / static_cast<std::size_t>(count);
  const std::size_t row_bytes = width * results::h5::type_bytes(stored_type(type));
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    (void)encode_row(std::span(weights).subspan(i * width, width), type,
                     out.subspan(i * row_bytes, row_bytes), name);
  }
}

}  // namespace

void write_embedding(results::h5::File& file, const FeatureSource& source, const StorePlan& plan,
                     const EmbeddingPace& pace) {
  const model::MatrixRecord& record =
      source.index().matrices[static_cast<std::size_t>(plan.embedding)];
  file.make_group("/embedding");
  VectorWriter vectors(file, "/embedding", "token", plan.embedding_type, record.rows, record.cols);
  engine::SourceWatch watch(source.files());
  const std::string name = model::matrix_name(record);
  std::vector<std::byte> encoded;
  for (std::int64_t first = 0; first < record.rows; first += pace.batch_rows) {
    const std::int64_t count = std::min(pace.batch_rows, record.rows - first);
    encoded.resize(static_cast<std::size_t>(count) * vectors.row_bytes());
    const auto parts = static_cast<std::size_t>((count + pace.part_rows - 1) / pace.part_rows);
    for_each_index(parts, pace.threads, [&](std::size_t /*worker*/, std::size_t i) {
      throw_if_stopped(pace.stop);
      const std::int64_t from = static_cast<std::int64_t>(i) * pace.part_rows;
      const auto input = engine::make_streamed_input(watch, record, pace.stop);
      encode_rows(*input, first + from, std::min(pace.part_rows, count - from), plan.embedding_type,
                  std::span(encoded).subspan(static_cast<std::size_t>(from) * vectors.row_bytes()),
                  name);
    });
    watch.require_unchanged();
    vectors.write(encoded, pace.threads);
  }
  vectors.finish();
  results::h5::Layout layout;
  layout.chunk = {1};
  layout.deflate = 1;
  const double factor = source.scale().factor;
  results::h5::Dataset scale =
      file.make_dataset("/embedding/scale", results::h5::Type::kFloat64, {1}, layout);
  scale.set_attribute("long_name", "factor of a row before the first layer");
  scale.write<double>(0, 1, std::span(&factor, 1));
}

}  // namespace vindex::commands
