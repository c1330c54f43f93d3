// Owns the tiles of a product: which rows of W, tokens and columns are worked on together. A thread
// takes a tile of outputs, decodes W for it chunk by chunk of columns into memory that stays in its
// cache, and adds the product of each chunk. Tiles and chunks follow from the shape and the
// encoding alone, so no bit depends on threads, or on whether W is in memory.
#include "linear.hpp"

#include "simd_few_tokens.hpp"
#include "weight_chunk.hpp"

#include "backend/backend.hpp"
#include "blas/blas.hpp"
#include "core/integers.hpp"
#include "core/process/parallel.hpp"
#include "core/process/stop.hpp"
#include "cpu/workspace/workspace.hpp"
#include "decode/encoding/code_layout.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <array>
#include <vector>

namespace vindex::cpu {

namespace {

/// Decoded weights that a thread holds at a time: 768 KiB. A row of the widest blocks fits in
/// whatever the tile.
constexpr std::int64_t kChunkFloats = std::int64_t{3} << 16U;
/// Columns of a chunk and tokens of a product: what a gemm packs of both should stay in a cache,
/// and its own blocks are 384 columns deep (OpenBLAS, sgemm of Haswell and Zen).
constexpr std::int64_t kChunkCols = 768;
constexpr std::int64_t kProductTokens = 256;
/// Encoded bytes of a streamed weight that are asked for at a time, about.
constexpr std::uint64_t kWeightSlabBytes = std::uint64_t{32} << 20U;
/// Columns that the outputs of a tile span at most where W is stored in x out.
constexpr std::int64_t kSpan = 4096;
/// Multiplications that are worth a thread's start.
constexpr std::int64_t kWorkOfThread = std::int64_t{1} << 20U;

struct TileShape {
  std::int64_t outputs = 0, tokens = 0;
};

/// How W may be cut, and into how many tiles at least, where its shape has them: enough for many
/// threads. Large tiles come first: a product packs both of its factors anew for each, and W is
/// decoded anew for each tile of tokens.
struct TileChoice {
  std::int64_t least = 0;
  std::array<TileShape, 7> shapes;
};
constexpr TileChoice kByRows = {
    16, {{{256, 1024}, {128, 1024}, {128, 512}, {64, 512}, {64, 256}, {32, 128}, {16, 64}}}};
/// Outputs of one stored row are a piece of it: narrow ones are read at a third of the speed.
constexpr TileChoice kByColumns = {
    8, {{{512, 1024}, {512, 256}, {256, 1024}, {128, 512}, {64, 256}, {32, 128}, {16, 64}}}};

TileShape tile_shape(const LinearCall& call) {
  const bool transposed = call.weight->transposed();
  const TileChoice& choice = transposed ? kByColumns : kByRows;
  TileShape taken = choice.shapes.back();
  for (const TileShape& shape : choice.shapes) {
    if (ceil_divide(call.count, shape.outputs) * ceil_divide(call.tokens, shape.tokens) >=
        choice.least) {
      taken = shape;
      break;
    }
  }
  if (transposed) {
    taken.outputs = std::clamp<std::int64_t>(kSpan / call.step, 1, taken.outputs);
  }
  return taken;
}

std::int64_t logical_rows(const MatrixInput& weight) {
  return weight.transposed() ? weight.cols() : weight.rows();
}
std::int64_t logical_cols(const MatrixInput& weight) {
  return weight.transposed() ? weight.rows() : weight.cols();
}

/// Outputs and columns of W that can be multiplied with what is at hand of it.
struct Piece {
  WeightPart part;
  std::int64_t first = 0, outputs = 0;
  std::int64_t first_col = 0, cols = 0;
};

class Product {
 public:
  Product(const LinearCall& call, std::int32_t threads, const std::stop_token& stop)
      : call_(call), stop_(stop), shape_(tile_shape(call)) {
    fit_to_slabs();
    const std::int64_t work = call.tokens * call.count * logical_cols(*call.weight);
    const std::int64_t most = std::max<std::int32_t>(threads, 1);
    for (std::int64_t i = 0; i < std::clamp<std::int64_t>(work / kWorkOfThread, 1, most); ++i) {
      chunks_.emplace_back(workspace_, kChunkFloats, "decoded weights of a product");
    }
  }

  void run() {
    MatrixInput& weight = *call_.weight;
    if (weight.in_memory()) {
      add({{weight.row_slab(0, weight.rows()), 0, weight.transposed()},
           0,
           call_.count,
           0,
           logical_cols(weight)});
    } else if (weight.transposed()) {
      run_by_columns(weight);
    } else {
      run_by_outputs(weight);
    }
  }

 private:
  /// A slab of a streamed W holds whole tiles, or whole chunks; W in memory is cut alike.
  void fit_to_slabs() {
    const MatrixInput& weight = *call_.weight;
    if (!weight.transposed()) {
      shape_.outputs =
          std::min(shape_.outputs, std::max<std::int64_t>(1, slab_rows() / call_.step));
    }
    cols_ = chunk_cols(weight, call_.step, shape_.outputs, {kChunkFloats, kChunkCols});
    if (weight.transposed()) {
      cols_ = std::min(cols_, slab_rows());
    }
  }

  /// Stored rows that a slab may have.
  std::int64_t slab_rows() const {
    const MatrixInput& weight = *call_.weight;
    const auto row =
        decode::slab_bytes(weight.encoding(), 1, static_cast<std::uint64_t>(weight.cols()));
    return std::max<std::int64_t>(
        1,
        static_cast<std::int64_t>(kWeightSlabBytes / std::max<std::uint64_t>(row.value_or(1), 1)));
  }

  void run_by_outputs(MatrixInput& weight) {
    const std::int64_t fitting = std::max<std::int64_t>(1, slab_rows() / call_.step);
    const std::int64_t outputs = fitting / shape_.outputs * shape_.outputs;
    for (std::int64_t first = 0; first < call_.count; first += outputs) {
      const std::int64_t count = std::min(outputs, call_.count - first);
      const std::int64_t row = call_.first + first * call_.step;
      add({{weight.row_slab(row, (count - 1) * call_.step + 1), row, false},
           first,
           count,
           0,
           weight.cols()});
    }
  }

  void run_by_columns(MatrixInput& weight) {
    const std::int64_t step = slab_rows() / cols_ * cols_;
    for (std::int64_t first = 0; first < weight.rows(); first += step) {
      const std::int64_t count = std::min(step, weight.rows() - first);
      add({{weight.row_slab(first, count), first, true}, 0, call_.count, first, count});
    }
  }

  void add(const Piece& piece) {
    const std::int64_t across = ceil_divide(call_.tokens, shape_.tokens);
    const std::int64_t tiles = ceil_divide(piece.outputs, shape_.outputs) * across;
    for_each_index(as_size(tiles), chunks_.size(), [&](std::size_t worker, std::size_t index) {
      const auto i = static_cast<std::int64_t>(index);
      add_tile(piece, i / across * shape_.outputs, i % across * shape_.tokens,
               chunks_[worker].data());
    });
  }

  /// Outputs of `piece` from `first` on, tokens from `token` on.
  void add_tile(const Piece& piece, std::int64_t first, std::int64_t token, float* scratch) {
    const std::int64_t outputs = std::min(shape_.outputs, piece.outputs - first);
    const std::int64_t tokens = std::min(shape_.tokens, call_.tokens - token);
    const std::int64_t output = piece.first + first;
    if (piece.first_col == 0) {
      begin(output, outputs, token, tokens);
    }
    for (std::int64_t col = 0; col < piece.cols; col += cols_) {
      const ChunkPlace place{.first = call_.first + output * call_.step,
                             .step = call_.step,
                             .count = outputs,
                             .first_col = piece.first_col + col,
                             .cols = std::min(cols_, piece.cols - col)};
      throw_if_stopped(stop_);
      const DecodedChunk chunk = decode_chunk(piece.part, place, scratch);
      for (std::int64_t t = 0; t < tokens; t += kProductTokens) {
        multiply({.chunk = chunk,
                  .outputs = outputs,
                  .cols = place.cols,
                  .tokens = std::min(kProductTokens, tokens - t),
                  .x = call_.x + (token + t) * call_.x_stride + place.first_col,
                  .x_stride = call_.x_stride,
                  .y = call_.y + (token + t) * call_.y_stride + output,
                  .y_stride = call_.y_stride});
      }
    }
  }

  /// Outputs that are yet to be added to.
  void begin(std::int64_t output, std::int64_t outputs, std::int64_t token, std::int64_t tokens) {
    for (std::int64_t t = token; t < token + tokens; ++t) {
      float* const y = call_.y + t * call_.y_stride + output;
      if (call_.bias != nullptr) {
        std::copy_n(call_.bias + output, outputs, y);
      } else {
        std::fill_n(y, outputs, 0.0F);
      }
    }
  }

  void multiply(const FewTokens& work) const {
    if (call_.tokens <= kFewTokens) {
      multiply_few(work, level_);
      return;
    }
    blas::blas().cblas_sgemm(CblasRowMajor, CblasNoTrans,
                             work.chunk.transposed ? CblasNoTrans : CblasTrans, as_int(work.tokens),
                             as_int(work.outputs), as_int(work.cols), 1.0F, work.x,
                             as_int(work.x_stride), work.chunk.values, as_int(work.chunk.stride),
                             1.0F, work.y, as_int(work.y_stride));
  }

  const LinearCall& call_;
  const std::stop_token& stop_;
  TileShape shape_;
  std::int64_t cols_ = 1;  ///< of a chunk
  SimdLevel level_ = best_simd_level();
  Workspace workspace_{0};
  std::vector<WorkArray<float>> chunks_;  ///< one for each thread
};

}  // namespace

void multiply_linear(const LinearCall& call, std::int32_t threads, const std::stop_token& stop) {
  expects(call.weight != nullptr && call.tokens >= 0 && call.count >= 0 && call.step >= 1 &&
              call.first >= 0,
          "linear: a weight and rows of it");
  if (call.tokens == 0 || call.count == 0) {
    return;
  }
  expects(call.first + (call.count - 1) * call.step < logical_rows(*call.weight),
          "linear: rows of the weight");
  expects(call.x_stride >= logical_cols(*call.weight) && call.y_stride >= call.count,
          "linear: strides that hold a row");
  throw_if_stopped(stop);
  Product(call, threads, stop).run();
}

std::uint64_t linear_bytes(std::int64_t /*rows*/, std::int64_t cols, std::int32_t threads) {
  // A slab of a streamed weight is one row at least, of eight bytes a weight at most.
  return static_cast<std::uint64_t>(threads) * array_bytes(kChunkFloats, sizeof(float)) +
         kWeightSlabBytes + 8 * static_cast<std::uint64_t>(cols);
}

}  // namespace vindex::cpu
