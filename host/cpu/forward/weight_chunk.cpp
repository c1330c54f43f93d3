// Owns the mapping of logical rows to stored rows or columns, and the copying of those that are
// asked for out of what was decoded.
#include "weight_chunk.hpp"

#include "backend/backend.hpp"
#include "core/integers.hpp"
#include "decode/decode_matrix.hpp"
#include "decode/encoding/code_layout.hpp"

#include <algorithm>

namespace vindex::cpu {

namespace {

/// Stored columns that hold logical rows `place` of a transposed weight, cut where it may be cut.
struct ColumnSpan {
  std::int64_t first = 0, count = 0;
};

ColumnSpan column_span(const WeightPart& part, std::int64_t first, std::int64_t step,
                       std::int64_t count) {
  const std::int64_t granule = decode::column_granularity(*part.view.encoding);
  const std::int64_t begin = first / granule * granule;
  const std::int64_t last = first + (count - 1) * step;
  const std::int64_t end = std::min((last / granule + 1) * granule, part.view.cols);
  return {begin, end - begin};
}

/// Most columns that logical rows in steps may span, wherever they begin.
std::int64_t widest_span(const MatrixInput& weight, std::int64_t step, std::int64_t count) {
  const std::int64_t granule = decode::column_granularity(weight.encoding());
  return std::min(weight.cols(), (count - 1) * step + 2 * granule);
}

void decode_rows(const WeightPart& part, const ChunkPlace& place, float* scratch) {
  const decode::EncodedMatrix cols = decode::column_slab(part.view, place.first_col, place.cols);
  const std::int64_t first = place.first - part.first_row;
  if (place.step == 1) {
    decode::decode_matrix(decode::row_slab(cols, first, place.count), scratch, place.cols);
    return;
  }
  for (std::int64_t i = 0; i < place.count; ++i) {
    decode::decode_matrix(decode::row_slab(cols, first + i * place.step, 1),
                          scratch + i * place.cols, place.cols);
  }
}

}  // namespace

std::int64_t chunk_cols(const MatrixInput& weight, std::int64_t step, std::int64_t count,
                        const ChunkLimit& limit) {
  const std::int64_t granule =
      weight.transposed() ? 1 : decode::column_granularity(weight.encoding());
  const std::int64_t width = weight.transposed() ? widest_span(weight, step, count) : count;
  const std::int64_t cols = std::min(limit.floats / width, limit.cols);
  return std::max<std::int64_t>(1, cols / granule) * granule;
}

DecodedChunk decode_chunk(const WeightPart& part, const ChunkPlace& place, float* scratch) {
  if (!part.transposed) {
    decode_rows(part, place, scratch);
    return {scratch, place.cols, false};
  }
  const ColumnSpan span = column_span(part, place.first, place.step, place.count);
  const decode::EncodedMatrix rows =
      decode::row_slab(part.view, place.first_col - part.first_row, place.cols);
  decode::decode_matrix(decode::column_slab(rows, span.first, span.count), scratch, span.count);
  const std::int64_t skip = place.first - span.first;
  if (place.step > 1) {
    // In place: every value moves towards the front.
    for (std::int64_t k = 0; k < place.cols; ++k) {
      float* const row = scratch + k * span.count;
      for (std::int64_t i = 0; i < place.count; ++i) {
        row[i] = row[skip + i * place.step];
      }
    }
    return {scratch, span.count, true};
  }
  return {scratch + skip, span.count, true};
}

}  // namespace vindex::cpu
