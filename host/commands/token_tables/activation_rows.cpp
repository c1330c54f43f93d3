// Owns cutting a requested order of rows into runs of neighbours, and reading, pooling and decoding
// them run by run.
#include "activation_rows.hpp"

#include "decode/decode_matrix.hpp"
#include "decode/encoding/code_layout.hpp"
#include "decode/encoding/encoded_matrix.hpp"
#include "decode/encoding/encoding.hpp"
#include "engine/units/matrix_loader.hpp"
#include <vindex/error.hpp>

#include <algorithm>

namespace vindex::engine {

namespace {

/// Tokens of a prompt that are decoded at a time to be averaged.
constexpr std::int64_t kPooledRows = 256;

std::int64_t count_of(std::span<const RowRun> runs) {
  std::int64_t rows = 0;
  for (const RowRun& run : runs) {
    rows += run.count;
  }
  return rows;
}

}  // namespace

std::vector<RowRun> cut_runs(std::span<const RowRun> runs, std::int64_t first, std::int64_t count) {
  std::vector<RowRun> out;
  std::int64_t at = 0;
  for (const RowRun& run : runs) {
    const std::int64_t begin = std::max(first, at);
    const std::int64_t end = std::min(first + count, at + run.count);
    if (begin < end) {
      out.push_back({run.first + begin - at, end - begin});
    }
    at += run.count;
    if (at >= first + count) {
      break;
    }
  }
  return out;
}

ActivationRows::ActivationRows(SourceWatch& watch, const model::MatrixRecord& matrix,
                               std::span<const model::PromptRows> prompts, Pooling pooling)
    : watch_(watch), matrix_(matrix), prompts_(prompts), pooling_(pooling) {
  const auto bytes = decode::row_bytes(matrix.encoding, static_cast<std::uint64_t>(matrix.cols));
  expects(bytes.has_value(), "rows of a dump have bytes of their own");
  row_bytes_ = static_cast<std::size_t>(*bytes);
}

std::int64_t ActivationRows::rows() const {
  return pooling_ == Pooling::kNone ? matrix_.rows : static_cast<std::int64_t>(prompts_.size());
}

const decode::Encoding& ActivationRows::encoding() const {
  return pooling_ == Pooling::kNone ? matrix_.encoding : decode::float32_encoding();
}

decode::EncodedMatrix ActivationRows::read_stored(std::span<const RowRun> runs) {
  const std::int64_t rows = count_of(runs);
  stored_.resize(static_cast<std::size_t>(rows) * row_bytes_);
  std::vector<ReadRequest> requests;
  requests.reserve(runs.size());
  std::size_t at = 0;
  for (const RowRun& run : runs) {
    expects(run.first >= 0 && run.first + run.count <= matrix_.rows, "rows of a dumped matrix");
    const std::size_t size = static_cast<std::size_t>(run.count) * row_bytes_;
    requests.push_back({matrix_.codes.offset + static_cast<std::uint64_t>(run.first) * row_bytes_,
                        std::span(stored_).subspan(at, size)});
    at += size;
  }
  source_of(watch_.files(), matrix_.codes.tensor).read_many(requests);
  watch_.was_read(matrix_.codes.tensor);
  decode::EncodedMatrix view;
  view.encoding = &matrix_.encoding;
  view.rows = rows;
  view.cols = matrix_.cols;
  view.codes = stored_.data();
  view.row_stride_bytes = static_cast<std::int64_t>(row_bytes_);
  return view;
}

void ActivationRows::pool(std::span<const RowRun> runs) {
  const auto cols = static_cast<std::size_t>(matrix_.cols);
  pooled_.resize(static_cast<std::size_t>(count_of(runs)) * cols);
  std::vector<double> sums(cols);
  std::vector<float> values;
  float* out = pooled_.data();
  for (const RowRun& run : runs) {
    for (std::int64_t i = run.first; i < run.first + run.count; ++i, out += cols) {
      const model::PromptRows& prompt = prompts_[static_cast<std::size_t>(i)];
      const bool last = pooling_ == Pooling::kLast;
      std::int64_t first = last ? prompt.first + prompt.count - 1 : prompt.first;
      std::fill(sums.begin(), sums.end(), 0.0);
      while (first < prompt.first + prompt.count) {
        const RowRun piece{first, std::min(kPooledRows, prompt.first + prompt.count - first)};
        values.resize(static_cast<std::size_t>(piece.count) * cols);
        decode::decode_matrix(read_stored({&piece, 1}), values.data(), matrix_.cols);
        for (std::size_t at = 0; at < values.size(); at += cols) {
          for (std::size_t j = 0; j < cols; ++j) {
            sums[j] += static_cast<double>(values[at + j]);
          }
        }
        first += piece.count;
      }
      const double count = last ? 1.0 : static_cast<double>(prompt.count);
      std::transform(sums.begin(), sums.end(), out,
                     [&](double sum) { return static_cast<float>(sum / count); });
    }
  }
}

decode::EncodedMatrix ActivationRows::read(std::span<const RowRun> runs) {
  if (pooling_ == Pooling::kNone) {
    return read_stored(runs);
  }
  pool(runs);
  return decode::float32_view(pooled_.data(), count_of(runs), matrix_.cols);
}

void ActivationRows::decode(std::span<const RowRun> runs, std::vector<float>& out) {
  const decode::EncodedMatrix view = read(runs);
  out.resize(static_cast<std::size_t>(view.rows) * static_cast<std::size_t>(view.cols));
  decode::decode_matrix(view, out.data(), view.cols);
}

void ActivationRows::drop_buffers() {
  stored_ = {};
  pooled_ = {};
}

}  // namespace vindex::engine
