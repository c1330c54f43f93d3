// Owns the tiles in which weights are decoded and scored: stored rows as they lie, stored columns
// by blocks; and the repetition of sums of squares that float32 may have spoilt.
#include "feature_scores.hpp"

#include "score_kernels.hpp"

#include "decode/decode_matrix.hpp"
#include "decode/encoding/code_layout.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <cmath>
#include <optional>

namespace vindex::statistics {

namespace {

constexpr std::int64_t kTileValues = 64 << 10;  ///< decoded at a time: 256 KiB stay in the cache
constexpr std::int64_t kChunkRows = 4;          ///< decoded at a time of long rows: 16 KiB
constexpr std::int64_t kReadValues = 1 << 20;   ///< read at a time where nothing is in memory
/// Of bytes that pass by: the copy's own cost is spread, and a core's caches hold them until they
/// are summed (docs/runs/performance.md).
constexpr std::int64_t kPassingBytes = 1 << 20;
constexpr std::int64_t kMinTurnedRows = 64;  ///< of codes that lie in columns
/// Rows whose products with stored columns are summed in float32, one after the other.
constexpr std::int64_t kTurnedChunk = 256;
constexpr std::int64_t kColumns = 512;  ///< features at a time of what is stored in x out
/// Outside these bounds the float32 sums of squares may have lost something.
constexpr double kMinSquare = 1e-25, kLargestSquare = 1e30;

std::int64_t padded(std::int64_t length) {
  return (length + kScoreLanes - 1) / kScoreLanes * kScoreLanes;
}

/// Rows and columns that are decoded together.
struct Tile {
  std::int64_t rows = 0, cols = 0;
};

/// Where a row's blocks lie one behind the other, a tile is a chunk of a few rows, which the
/// nearest cache holds between decoding and summing; elsewhere it is of whole rows.
Tile tile_of(const decode::Encoding& encoding, std::int64_t cols) {
  const bool lies_in_rows = decode::code_layout(encoding.scheme) == decode::CodeLayout::kRows;
  if (lies_in_rows && cols > kScoreChunk &&
      kScoreChunk % std::max<std::int64_t>(1, decode::column_granularity(encoding)) == 0) {
    return {kChunkRows, kScoreChunk};
  }
  const std::int64_t rows =
      std::max<std::int64_t>(2, kTileValues / std::max<std::int64_t>(cols, 1));
  return {lies_in_rows ? rows : std::max(rows, kMinTurnedRows), cols};
}

/// Rows that are read together.
std::int64_t read_rows(const decode::Encoding& encoding, std::int64_t cols) {
  return std::max(tile_of(encoding, cols).rows, kReadValues / std::max<std::int64_t>(cols, 1));
}

/// The same of bytes that pass by.
std::int64_t passing_rows(const decode::Encoding& encoding, std::int64_t cols) {
  const auto bytes = decode::row_bytes(encoding, static_cast<std::uint64_t>(cols));
  const std::int64_t most = read_rows(encoding, cols);
  return bytes ? std::clamp<std::int64_t>(
                     kPassingBytes / std::max<std::int64_t>(1, static_cast<std::int64_t>(*bytes)),
                     tile_of(encoding, cols).rows, most)
               : most;
}

/// The type whose kernel takes rows of `cols` as they are stored, if any. It converts for every few
/// queries again, so for many they are decoded once.
std::optional<ScoredType> scored_as_stored(const decode::Encoding& encoding, std::int64_t cols,
                                           std::int64_t query_count) {
  constexpr std::int64_t kMostConverted = 4;
  if (encoding.scheme != decode::Scheme::kPlain || cols % kScoreLanes != 0) {
    return std::nullopt;
  }
  const bool may_convert = query_count <= kMostConverted;
  switch (encoding.type) {
    case decode::ElementType::kF32:
      return ScoredType::kF32;
    case decode::ElementType::kBF16:
      return may_convert ? std::optional(ScoredType::kBF16) : std::nullopt;
    case decode::ElementType::kF16:
      return may_convert ? std::optional(ScoredType::kF16) : std::nullopt;
    default:
      return std::nullopt;
  }
}

const std::byte* bytes_of(const float* values) {
  return reinterpret_cast<const std::byte*>(values);
}

/// Columns that are read together: whole blocks of codes.
std::int64_t read_columns(const decode::Encoding& encoding) {
  const std::int64_t unit = std::max<std::int64_t>(1, decode::column_granularity(encoding));
  return std::max(unit, kColumns / unit * unit);
}

/// The sums of one row again in float64: of weights whose squares float32 does not hold.
void sum_again(const float* row, std::int64_t step, const QueryVectors& queries, double* scores,
               double* square) {
  double sum = 0.0;
  for (std::int64_t i = 0; i < queries.width(); ++i) {
    const double weight = row[i * step];
    sum += weight * weight;
  }
  *square = sum;
  for (std::int64_t query = 0; query < queries.count(); ++query) {
    const float* values = queries.row(query);
    double product = 0.0;
    for (std::int64_t i = 0; i < queries.width(); ++i) {
      product += static_cast<double>(row[i * step]) * static_cast<double>(values[i]);
    }
    scores[query] = product;
  }
}

bool is_doubtful(double square) { return !(square >= kMinSquare && square <= kLargestSquare); }

/// Features that are stored rows, a tile of them at a time.
class RowTiles {
 public:
  RowTiles(const decode::Encoding& encoding, std::int64_t cols, const QueryVectors& queries)
      : queries_(queries),
        as_stored_(scored_as_stored(encoding, cols, queries.count())),
        tile_(tile_of(encoding, cols)),
        stride_(padded(tile_.cols)),
        decoded_(static_cast<std::size_t>(tile_.rows * stride_)),
        scores_(static_cast<std::size_t>(tile_.rows * queries.count())),
        squares_(static_cast<std::size_t>(tile_.rows)) {}

  std::int64_t rows() const { return tile_.rows; }
  const double* scores() const { return scores_.data(); }
  const double* squares() const { return squares_.data(); }

  /// Scores of `count` rows of `read`, at most rows(), `step` apart from `first` on.
  void score(const decode::EncodedMatrix& read, std::int64_t first, std::int64_t step,
             std::int64_t count) {
    std::fill_n(scores_.begin(), count * queries_.count(), 0.0);
    std::fill_n(squares_.begin(), count, 0.0);
    if (as_stored_) {
      add(*as_stored_, read.codes + first * read.row_stride_bytes, count,
          step * read.row_stride_bytes, 0, read.cols);
    } else {
      for (std::int64_t col = 0; col < read.cols; col += tile_.cols) {
        const std::int64_t width = std::min(tile_.cols, read.cols - col);
        decode(read, first, step, count, col, width);
        add(ScoredType::kF32, bytes_of(decoded_.data()), count,
            stride_ * static_cast<std::int64_t>(sizeof(float)), col, padded(width));
      }
    }
    for (std::int64_t i = 0; i < count; ++i) {
      if (double& square = squares_[static_cast<std::size_t>(i)]; is_doubtful(square)) {
        std::vector<float> row(static_cast<std::size_t>(read.cols));
        decode::decode_matrix(decode::row_slab(read, first + i * step, 1), row.data(), read.cols);
        sum_again(row.data(), 1, queries_, scores_.data() + i * queries_.count(), &square);
      }
    }
  }

 private:
  /// Columns [col, col + length) of `count` rows.
  void add(ScoredType type, const std::byte* rows, std::int64_t count, std::int64_t stride_bytes,
           std::int64_t col, std::int64_t length) {
    score_kernels().rows[static_cast<std::size_t>(type)]({.rows = rows,
                                                          .row_count = count,
                                                          .row_stride_bytes = stride_bytes,
                                                          .length = length,
                                                          .queries = queries_.row(0) + col,
                                                          .query_count = queries_.count(),
                                                          .query_stride = queries_.stride(),
                                                          .scores = scores_.data(),
                                                          .squares = squares_.data()});
  }

  /// Zeros follow each row up to whole lanes.
  void decode(const decode::EncodedMatrix& read, std::int64_t first, std::int64_t step,
              std::int64_t count, std::int64_t col, std::int64_t width) {
    const auto part = [&](std::int64_t row, std::int64_t rows) {
      const decode::EncodedMatrix slab = decode::row_slab(read, row, rows);
      return width == read.cols ? slab : decode::column_slab(slab, col, width);
    };
    if (step == 1) {
      decode::decode_matrix(part(first, count), decoded_.data(), stride_);
    } else {
      for (std::int64_t i = 0; i < count; ++i) {
        decode::decode_matrix(part(first + i * step, 1), decoded_.data() + i * stride_, stride_);
      }
    }
    for (std::int64_t i = 0; i < count; ++i) {
      float* const row = decoded_.data() + i * stride_;
      std::fill(row + width, row + padded(width), 0.0F);
    }
  }

  const QueryVectors& queries_;
  std::optional<ScoredType> as_stored_;
  Tile tile_;
  std::int64_t stride_;
  LineVector<float> decoded_;
  std::vector<double> scores_, squares_;
};

/// Features are stored rows.
void score_stored_rows(MatrixInput& matrix, const ScoredRows& rows, const QueryVectors& queries,
                       const SeeScores& see) {
  const bool is_passing = !matrix.in_memory() && matrix.has_cheap_slabs();
  const std::int64_t most = is_passing ? passing_rows(matrix.encoding(), matrix.cols())
                                       : read_rows(matrix.encoding(), matrix.cols());
  // As many rows as lie between the first and the last feature of a read.
  const std::int64_t at_once = std::max<std::int64_t>(1, most / rows.step);
  RowTiles tiles(matrix.encoding(), matrix.cols(), queries);
  for (std::int64_t begin = 0; begin < rows.count; begin += at_once) {
    const std::int64_t count = std::min(at_once, rows.count - begin);
    const decode::EncodedMatrix read =
        matrix.row_slab(rows.first + begin * rows.step, (count - 1) * rows.step + 1);
    for (std::int64_t first = 0; first < count; first += tiles.rows()) {
      const std::int64_t some = std::min(tiles.rows(), count - first);
      tiles.score(read, first * rows.step, rows.step, some);
      see({begin + first, some, queries.count(), tiles.scores(), tiles.squares()});
    }
  }
}

/// What a block of stored columns comes to.
class ColumnBlock {
 public:
  ColumnBlock(const QueryVectors& queries, std::int64_t max_columns)
      : queries_(queries),
        stride_(padded(max_columns)),
        tile_rows_(std::max<std::int64_t>(8, kTileValues / stride_)),
        decoded_(static_cast<std::size_t>(tile_rows_ * stride_)),
        sums_(static_cast<std::size_t>(queries.count() * stride_)),
        square_sums_(static_cast<std::size_t>(stride_)),
        scores_(sums_.size()),
        squares_(square_sums_.size()) {}

  /// Sums over every row of `view`.
  void sum(const decode::EncodedMatrix& view) {
    std::fill(scores_.begin(), scores_.end(), 0.0);
    std::fill(squares_.begin(), squares_.end(), 0.0);
    for (std::int64_t chunk = 0; chunk < view.rows; chunk += kTurnedChunk) {
      std::fill(sums_.begin(), sums_.end(), 0.0F);
      std::fill(square_sums_.begin(), square_sums_.end(), 0.0F);
      const std::int64_t end = std::min(view.rows, chunk + kTurnedChunk);
      for (std::int64_t row = chunk; row < end; row += tile_rows_) {
        const std::int64_t some = std::min(tile_rows_, end - row);
        decode::decode_matrix(decode::row_slab(view, row, some), decoded_.data(), stride_);
        score_kernels().columns({.rows = decoded_.data(),
                                 .row_count = some,
                                 .row_stride = stride_,
                                 .col_count = stride_,
                                 .queries = queries_.row(0) + row,
                                 .query_count = queries_.count(),
                                 .query_stride = queries_.stride(),
                                 .scores = sums_.data(),
                                 .squares = square_sums_.data()});
      }
      std::transform(sums_.begin(), sums_.end(), scores_.begin(), scores_.begin(),
                     [](float sum, double all) { return all + static_cast<double>(sum); });
      std::transform(square_sums_.begin(), square_sums_.end(), squares_.begin(), squares_.begin(),
                     [](float sum, double all) { return all + static_cast<double>(sum); });
    }
  }

  double score(std::int64_t query, std::int64_t column) const {
    return scores_[static_cast<std::size_t>(query * stride_ + column)];
  }
  double square(std::int64_t column) const { return squares_[static_cast<std::size_t>(column)]; }

 private:
  const QueryVectors& queries_;
  std::int64_t stride_, tile_rows_;
  std::vector<float> decoded_, sums_, square_sums_;
  std::vector<double> scores_, squares_;
};

/// Features are stored columns.
void score_stored_columns(MatrixInput& matrix, const ScoredRows& rows, const QueryVectors& queries,
                          const SeeScores& see) {
  const std::int64_t granularity =
      std::max<std::int64_t>(1, decode::column_granularity(matrix.encoding()));
  const std::int64_t at_once = read_columns(matrix.encoding());
  const std::int64_t queries_of = queries.count();
  ColumnBlock block(queries, at_once);
  std::vector<double> scores(static_cast<std::size_t>(at_once * queries_of));
  std::vector<double> squares(static_cast<std::size_t>(at_once));
  std::vector<float> column;
  const std::int64_t end = rows.count == 0 ? 0 : rows.first + (rows.count - 1) * rows.step + 1;
  for (std::int64_t first = rows.first / granularity * granularity; first < end; first += at_once) {
    const std::int64_t count = std::min(at_once, matrix.cols() - first);
    const decode::EncodedMatrix view = matrix.column_slab(first, count);
    block.sum(view);
    // The features among these columns.
    const std::int64_t feature =
        first <= rows.first ? 0 : (first - rows.first + rows.step - 1) / rows.step;
    std::int64_t found = 0;
    for (; feature + found < rows.count; ++found) {
      const std::int64_t at = rows.first + (feature + found) * rows.step - first;
      if (at >= count) {
        break;
      }
      double* const of_feature = scores.data() + found * queries_of;
      for (std::int64_t query = 0; query < queries_of; ++query) {
        of_feature[query] = block.score(query, at);
      }
      double& square = squares[static_cast<std::size_t>(found)];
      square = block.square(at);
      if (is_doubtful(square)) {
        // Whole blocks of codes around the column.
        const std::int64_t cut = at / granularity * granularity;
        const std::int64_t width = std::min(granularity, count - cut);
        column.resize(static_cast<std::size_t>(view.rows * width));
        decode::decode_matrix(decode::column_slab(view, cut, width), column.data(), width);
        sum_again(column.data() + (at - cut), width, queries, of_feature, &square);
      }
    }
    if (found > 0) {
      see({feature, found, queries_of, scores.data(), squares.data()});
    }
  }
}

}  // namespace

QueryVectors::QueryVectors(std::span<const float> values, std::int64_t count, std::int64_t width)
    : count_(count), width_(width), stride_(padded(width)) {
  expects(values.size() == static_cast<std::size_t>(count * width), "QueryVectors: all values");
  values_.resize(static_cast<std::size_t>(count * stride_));
  for (std::int64_t query = 0; query < count; ++query) {
    const float* from = values.data() + query * width;
    std::copy_n(from, width, values_.data() + query * stride_);
    double square = 0.0;
    for (std::int64_t i = 0; i < width; ++i) {
      square += static_cast<double>(from[i]) * static_cast<double>(from[i]);
    }
    norms_.push_back(std::sqrt(square));
  }
}

void score_rows(MatrixInput& matrix, const ScoredRows& rows, const QueryVectors& queries,
                const SeeScores& see) {
  expects((matrix.transposed() ? matrix.rows() : matrix.cols()) == queries.width(),
          "score_rows: queries as wide as the rows");
  if (rows.count == 0 || queries.count() == 0) {
    return;
  }
  if (matrix.transposed()) {
    score_stored_columns(matrix, rows, queries, see);
  } else {
    score_stored_rows(matrix, rows, queries, see);
  }
}

ScoreWorkspace score_workspace(const decode::Encoding& encoding, std::int64_t stored_rows,
                               std::int64_t stored_cols, bool transposed,
                               std::int64_t query_count) {
  const std::int64_t columns = std::min(read_columns(encoding), stored_cols);
  const std::int64_t read = std::min(read_rows(encoding, stored_cols), stored_rows);
  const Tile tile = tile_of(encoding, stored_cols);
  const std::int64_t floats =
      transposed ? std::max<std::int64_t>(8, kTileValues / padded(columns)) * padded(columns) +
                       (query_count + 1) * padded(columns)
                 : tile.rows * padded(tile.cols) + stored_cols;  // and a row that is summed again
  const std::int64_t doubles = (query_count + 1) * (transposed ? 2 * padded(columns) : tile.rows);
  const auto bytes = transposed
                         ? decode::slab_bytes(encoding, static_cast<std::uint64_t>(stored_rows),
                                              static_cast<std::uint64_t>(columns))
                         : decode::slab_bytes(encoding, static_cast<std::uint64_t>(read),
                                              static_cast<std::uint64_t>(stored_cols));
  expects(bytes.has_value(), "score_workspace: a slab of a matrix whose bytes are known");
  return {sizeof(float) * static_cast<std::uint64_t>(floats) +
              sizeof(double) * static_cast<std::uint64_t>(doubles),
          *bytes};
}

namespace {

std::vector<float> stored_row(MatrixInput& matrix, std::int64_t row) {
  expects(row >= 0 && row < matrix.rows(), "a row of the matrix");
  std::vector<float> values(static_cast<std::size_t>(matrix.cols()));
  decode::decode_matrix(matrix.row_slab(row, 1), values.data(), matrix.cols());
  return values;
}

/// Cut at the blocks around it.
std::vector<float> stored_column(MatrixInput& matrix, std::int64_t col) {
  expects(col >= 0 && col < matrix.cols(), "a column of the matrix");
  const std::int64_t unit =
      std::max<std::int64_t>(1, decode::column_granularity(matrix.encoding()));
  const std::int64_t first = col / unit * unit;
  const std::int64_t count = std::min(unit, matrix.cols() - first);
  std::vector<float> block(static_cast<std::size_t>(matrix.rows() * count));
  decode::decode_matrix(matrix.column_slab(first, count), block.data(), count);
  std::vector<float> values(static_cast<std::size_t>(matrix.rows()));
  for (std::int64_t row = 0; row < matrix.rows(); ++row) {
    values[static_cast<std::size_t>(row)] =
        block[static_cast<std::size_t>(row * count + (col - first))];
  }
  return values;
}

}  // namespace

std::vector<float> logical_row(MatrixInput& matrix, std::int64_t row) {
  return matrix.transposed() ? stored_column(matrix, row) : stored_row(matrix, row);
}

std::vector<float> logical_column(MatrixInput& matrix, std::int64_t col) {
  return matrix.transposed() ? stored_row(matrix, col) : stored_column(matrix, col);
}

}  // namespace vindex::statistics
