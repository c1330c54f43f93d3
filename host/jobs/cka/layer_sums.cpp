// Owns the two passes over a layer, means first, squared norms of centred rows second.
#include "layer_sums.hpp"

#include <vindex/core/parallel.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace vindex::jobs {

namespace {

/// Rows whose columns are summed before they join the others: fixes the order of additions.
constexpr std::size_t kPiece = 256;
/// Fewer are summed sooner than threads start.
constexpr std::size_t kThreadedPieces = 4;

/// Calls body(first, end) for pieces of `rows` rows, from several threads.
void for_pieces(std::size_t rows, std::uint64_t bytes,
                const std::function<void(std::size_t, std::size_t, std::size_t)>& body) {
  const std::size_t pieces = (rows + kPiece - 1) / kPiece;
  const std::size_t threads = pieces < kThreadedPieces ? 1 : thread_count(bytes);
  for_each_index(pieces, threads, [&](std::size_t /*worker*/, std::size_t piece) {
    body(piece, piece * kPiece, std::min(rows, (piece + 1) * kPiece));
  });
}

void add_columns(const std::vector<float>& values, std::size_t cols, std::vector<double>& sums) {
  const std::size_t rows = values.size() / cols;
  std::vector<std::vector<double>> partial((rows + kPiece - 1) / kPiece);
  for_pieces(rows, cols * sizeof(double),
             [&](std::size_t piece, std::size_t first, std::size_t end) {
               partial[piece].assign(cols, 0.0);
               double* const out = partial[piece].data();
               for (std::size_t i = first; i < end; ++i) {
                 const float* const row = values.data() + i * cols;
                 for (std::size_t j = 0; j < cols; ++j) {
                   out[j] += static_cast<double>(row[j]);
                 }
               }
             });
  for (const std::vector<double>& piece : partial) {
    std::transform(piece.begin(), piece.end(), sums.begin(), sums.begin(), std::plus<>());
  }
}

/// Squared norm of `row` less `means`, in eight sums side by side.
double centred_norm(const float* row, const std::vector<double>& means) {
  constexpr std::size_t kLanes = 8;
  double sums[kLanes] = {};
  const std::size_t cols = means.size();
  std::size_t j = 0;
  for (; j + kLanes <= cols; j += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const double value = static_cast<double>(row[j + lane]) - means[j + lane];
      sums[lane] += value * value;
    }
  }
  double sum = 0.0;
  for (; j < cols; ++j) {
    const double value = static_cast<double>(row[j]) - means[j];
    sum += value * value;
  }
  return std::accumulate(std::begin(sums), std::end(sums), sum);
}

}  // namespace

LayerSums layer_sums(engine::ActivationRows& rows, std::int64_t slab) {
  const auto cols = static_cast<std::size_t>(rows.cols());
  LayerSums sums;
  sums.means.assign(cols, 0.0);
  std::vector<float> values;
  for (std::int64_t first = 0; first < rows.rows(); first += slab) {
    const engine::RowRun run{first, std::min(slab, rows.rows() - first)};
    rows.decode({&run, 1}, values);
    add_columns(values, cols, sums.means);
  }
  for (double& mean : sums.means) {
    mean /= static_cast<double>(rows.rows());
    sums.is_finite = sums.is_finite && std::isfinite(mean);
  }
  if (!sums.is_finite) {
    return sums;
  }
  sums.row_norms.resize(static_cast<std::size_t>(rows.rows()));
  for (std::int64_t first = 0; first < rows.rows(); first += slab) {
    const engine::RowRun run{first, std::min(slab, rows.rows() - first)};
    rows.decode({&run, 1}, values);
    for_pieces(static_cast<std::size_t>(run.count), 0,
               [&](std::size_t /*piece*/, std::size_t begin, std::size_t end) {
                 for (std::size_t i = begin; i < end; ++i) {
                   sums.row_norms[static_cast<std::size_t>(first) + i] =
                       centred_norm(values.data() + i * cols, sums.means);
                 }
               });
  }
  rows.drop_buffers();
  sums.trace = std::accumulate(sums.row_norms.begin(), sums.row_norms.end(), 0.0);
  const double mean = sums.trace / static_cast<double>(rows.rows());
  if (mean > 0.0) {
    sums.kernel_scale = std::ldexp(1.0, -std::ilogb(mean));
  }
  const auto [least, most] = std::minmax_element(sums.row_norms.begin(), sums.row_norms.end());
  sums.is_finite = *least >= 0.0 && *most <= kMaxActivation * kMaxActivation;
  return sums;
}

double norms_product(const LayerSums& left, const LayerSums& right,
                     std::span<const engine::RowRun> order) {
  double sum = 0.0;
  std::size_t i = 0;
  for (const engine::RowRun& run : order) {
    for (std::int64_t j = run.first; j < run.first + run.count; ++j) {
      sum += left.row_norms[i++] * right.row_norms[static_cast<std::size_t>(j)];
    }
  }
  return sum;
}

}  // namespace vindex::jobs
