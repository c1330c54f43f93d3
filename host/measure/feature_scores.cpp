#include "feature_scores.hpp"

#include "score_kernels.hpp"

#include "decode/decode_matrix.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <cmath>

namespace vindex::measure {

namespace {

constexpr std::int64_t kTileValues = 64 << 10;  ///< decoded at a time: 256 KiB stay in the cache
constexpr std::int64_t kReadValues = 1 << 20;   ///< read at a time where nothing is in memory
constexpr std::int64_t kMinTurnedRows = 64;     ///< of codes that lie in columns
/// Rows whose products with stored columns are summed in float32, one after the other.
constexpr std::int64_t kTurnedChunk = 256;
constexpr std::int64_t kColumns = 512;  ///< features at a time of what is stored in x out
/// Outside these bounds the float32 sums of squares may have lost something.
constexpr double kMinSquare = 1e-25, kLargestSquare = 1e30;

std::int64_t padded(std::int64_t length) {
  return (length + kScoreLanes - 1) / kScoreLanes * kScoreLanes;
}

/// Rows that are decoded together.
std::int64_t tile_rows(const decode::Encoding& encoding, std::int64_t cols) {
  const std::int64_t rows =
      std::max<std::int64_t>(2, kTileValues / std::max<std::int64_t>(cols, 1));
  return decode::code_layout(encoding.scheme) == decode::CodeLayout::kRows
             ? rows
             : std::max(rows, kMinTurnedRows);
}

/// Rows that are read together.
std::int64_t read_rows(const decode::Encoding& encoding, std::int64_t cols) {
  return std::max(tile_rows(encoding, cols), kReadValues / std::max<std::int64_t>(cols, 1));
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

/// Features are stored rows.
void score_stored_rows(MatrixInput& matrix, const ScoredRows& rows, const QueryVectors& queries,
                       const SeeScores& see) {
  const std::int64_t stride = queries.stride();
  const std::int64_t tile = tile_rows(matrix.encoding(), matrix.cols());
  // As many rows as lie between the first and the last feature of a read.
  const std::int64_t at_once =
      std::max<std::int64_t>(1, read_rows(matrix.encoding(), matrix.cols()) / rows.step);
  std::vector<float> decoded(static_cast<std::size_t>(tile * stride));  // the padding stays zero
  std::vector<double> scores(static_cast<std::size_t>(tile * queries.count()));
  std::vector<double> squares(static_cast<std::size_t>(tile));
  for (std::int64_t begin = 0; begin < rows.count; begin += at_once) {
    const std::int64_t count = std::min(at_once, rows.count - begin);
    const decode::EncodedMatrix read =
        matrix.row_slab(rows.first + begin * rows.step, (count - 1) * rows.step + 1);
    for (std::int64_t first = 0; first < count; first += tile) {
      const std::int64_t some = std::min(tile, count - first);
      if (rows.step == 1) {
        decode::decode_matrix(decode::row_slab(read, first, some), decoded.data(), stride);
      } else {
        for (std::int64_t i = 0; i < some; ++i) {
          decode::decode_matrix(decode::row_slab(read, (first + i) * rows.step, 1),
                                decoded.data() + i * stride, stride);
        }
      }
      score_kernels().rows({.rows = decoded.data(),
                            .row_count = some,
                            .row_stride = stride,
                            .length = stride,
                            .queries = queries.row(0),
                            .query_count = queries.count(),
                            .query_stride = stride,
                            .scores = scores.data(),
                            .squares = squares.data()});
      for (std::int64_t i = 0; i < some; ++i) {
        if (double& square = squares[static_cast<std::size_t>(i)]; is_doubtful(square)) {
          sum_again(decoded.data() + i * stride, 1, queries, scores.data() + i * queries.count(),
                    &square);
        }
      }
      see({begin + first, some, queries.count(), scores.data(), squares.data()});
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
  const std::int64_t tile = tile_rows(encoding, stored_cols);
  const std::int64_t floats =
      transposed ? std::max<std::int64_t>(8, kTileValues / padded(columns)) * padded(columns) +
                       (query_count + 1) * padded(columns)
                 : tile * padded(stored_cols);
  const std::int64_t doubles = (query_count + 1) * (transposed ? 2 * padded(columns) : tile);
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

}  // namespace vindex::measure
