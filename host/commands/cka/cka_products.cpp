// Owns the two passes over a layer (means first, squared norms of centred rows second), and the
// products of CKA by a back end: X^T Y over slabs of rows, and blocks of U-centred X X^T.
#include "cka_products.hpp"

#include "core/process/parallel.hpp"
#include "decode/encoding/encoded_matrix.hpp"
#include "statistics/cka/cka.hpp"
#include <vindex/error.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <numeric>

namespace vindex::commands {

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

namespace {

std::int32_t threads_for(const Multiplier& multiplier, std::size_t elements) {
  return elements < kThreadedElements ? 1 : multiplier.threads;
}

double squared_norm(const std::vector<double>& values) {
  return std::inner_product(values.begin(), values.end(), values.begin(), 0.0);
}

std::vector<decode::EncodedMatrix> row_views(std::span<const float> values, std::int64_t cols,
                                             std::int64_t first, std::int64_t count) {
  std::vector<decode::EncodedMatrix> views;
  views.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = first; i < first + count; ++i) {
    views.push_back(decode::float32_view(values.data() + i * cols, 1, cols));
  }
  return views;
}

/// Products of rows of `left` with rows of `right`; with themselves where `right` is empty.
std::vector<double> view_products(const Multiplier& multiplier,
                                  std::span<const decode::EncodedMatrix> left,
                                  std::span<const decode::EncodedMatrix> right) {
  const std::size_t elements = left.size() * static_cast<std::size_t>(left.front().cols);
  const auto sums =
      multiplier.backend.inner_products({.left = static_cast<std::int64_t>(left.size()),
                                         .right = static_cast<std::int64_t>(right.size()),
                                         .cols = left.front().cols,
                                         .threads = threads_for(multiplier, elements),
                                         .stop = multiplier.stop});
  if (right.empty()) {
    sums->add(VectorSlab{.matrices = left});
  } else {
    sums->add(VectorSlab{.matrices = left}, VectorSlab{.matrices = right});
  }
  std::vector<double> out(left.size() * (right.empty() ? left.size() : right.size()));
  sums->read(out);
  return out;
}

/// What U-centring adds to the rows [first, first + count) of a pass.
std::vector<double> centring_terms(const PassLayer& layer, engine::RowRun run) {
  std::vector<double> terms;
  const std::vector<double>& norms = layer.sums->row_norms;
  const auto rows = static_cast<std::int64_t>(norms.size());
  for (const engine::RowRun& piece : engine::cut_runs(layer.order, run.first, run.count)) {
    for (std::int64_t i = piece.first; i < piece.first + piece.count; ++i) {
      terms.push_back(
          statistics::u_centring_term(rows, norms[static_cast<std::size_t>(i)], layer.sums->trace));
    }
  }
  return terms;
}

}  // namespace

std::vector<float> centred_rows(const PassLayer& layer, engine::RowRun run) {
  std::vector<float> values;
  layer.rows->decode(engine::cut_runs(layer.order, run.first, run.count), values);
  layer.rows->drop_buffers();
  const std::vector<double>& means = layer.sums->means;
  const std::size_t cols = means.size();
  for_each_index(static_cast<std::size_t>(run.count),
                 values.size() < kThreadedElements ? 1 : thread_count(0),
                 [&](std::size_t /*worker*/, std::size_t i) {
                   float* const row = values.data() + i * cols;
                   for (std::size_t j = 0; j < cols; ++j) {
                     row[j] = static_cast<float>(static_cast<double>(row[j]) - means[j]);
                   }
                 });
  return values;
}

std::vector<double> row_products(const Multiplier& multiplier, std::span<const float> left,
                                 std::span<const float> right, std::int64_t width) {
  const auto rows = [&](std::span<const float> values) {
    return row_views(values, width, 0, static_cast<std::int64_t>(values.size()) / width);
  };
  const auto left_views = rows(left);
  const auto right_views = rows(right);
  return view_products(multiplier, left_views, right_views);
}

double float_dot(std::span<const float> a, const float* b) {
  constexpr std::size_t kLanes = 8;
  std::array<double, kLanes> sums{};
  std::size_t k = 0;
  for (; k + kLanes <= a.size(); k += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      sums[lane] += static_cast<double>(a[k + lane]) * static_cast<double>(b[k + lane]);
    }
  }
  double rest = 0.0;
  for (; k < a.size(); ++k) {
    rest += static_cast<double>(a[k]) * static_cast<double>(b[k]);
  }
  return std::accumulate(sums.begin(), sums.end(), rest);
}

std::vector<CrossProduct> cross_products(const Multiplier& multiplier,
                                         std::span<const PassLayer> layers,
                                         std::span<const PassPair> pairs, std::int64_t slab,
                                         bool keep) {
  std::vector<std::unique_ptr<InnerProducts>> sums;
  for (const PassPair& pair : pairs) {
    const std::int64_t right = pair.left == pair.right ? 0 : layers[pair.right].rows->cols();
    sums.push_back(multiplier.backend.inner_products({.left = layers[pair.left].rows->cols(),
                                                      .right = right,
                                                      .threads = multiplier.threads,
                                                      .stop = multiplier.stop}));
  }
  const auto rows = static_cast<std::int64_t>(layers.front().sums->row_norms.size());
  std::vector<decode::EncodedMatrix> views(layers.size());
  for (std::int64_t first = 0; first < rows; first += slab) {
    const std::int64_t count = std::min(slab, rows - first);
    for (std::size_t l = 0; l < layers.size(); ++l) {
      views[l] = layers[l].rows->read(engine::cut_runs(layers[l].order, first, count));
      views[l].first_row = first;
    }
    for (std::size_t p = 0; p < pairs.size(); ++p) {
      const auto slab_of = [&](std::size_t l) {
        return VectorSlab{
            .matrices = {&views[l], 1}, .columns = true, .means = layers[l].sums->means};
      };
      if (pairs[p].left == pairs[p].right) {
        sums[p]->add(slab_of(pairs[p].left));
      } else {
        sums[p]->add(slab_of(pairs[p].left), slab_of(pairs[p].right));
      }
    }
  }
  for (const PassLayer& layer : layers) {
    layer.rows->drop_buffers();
  }
  std::vector<CrossProduct> products(pairs.size());
  std::vector<double> values;
  for (std::size_t p = 0; p < pairs.size(); ++p) {
    const auto height = static_cast<std::size_t>(layers[pairs[p].left].rows->cols());
    const auto width = static_cast<std::size_t>(layers[pairs[p].right].rows->cols());
    values.resize(height * width);
    sums[p]->read(values);
    sums[p].reset();
    products[p].squared_norm = squared_norm(values);
    if (keep) {
      products[p].transposed.resize(values.size());
      const double norm = std::sqrt(products[p].squared_norm);
      products[p].scale = norm > 0.0 ? std::ldexp(1.0, std::ilogb(norm)) : 1.0;
      for (std::size_t i = 0; i < height; ++i) {
        for (std::size_t j = 0; j < width; ++j) {
          products[p].transposed[j * height + i] =
              static_cast<float>(values[i * width + j] / products[p].scale);
        }
      }
    }
  }
  return products;
}

std::vector<float> u_centred_block(const Multiplier& multiplier, const PassLayer& layer,
                                   engine::RowRun rows, engine::RowRun cols) {
  const bool square = rows.first == cols.first && rows.count == cols.count;
  const std::int64_t width = layer.rows->cols();
  const std::vector<float> left = centred_rows(layer, rows);
  const std::vector<float> right = square ? std::vector<float>() : centred_rows(layer, cols);
  const std::vector<double> left_terms = centring_terms(layer, rows);
  const std::vector<double> right_terms = square ? left_terms : centring_terms(layer, cols);
  std::vector<float> block(static_cast<std::size_t>(rows.count) *
                           static_cast<std::size_t>(cols.count));
  for (std::int64_t row = 0; row < rows.count; row += kGramTile) {
    const std::int64_t height = std::min(kGramTile, rows.count - row);
    const auto row_side = row_views(left, width, row, height);
    for (std::int64_t col = square ? row : 0; col < cols.count; col += kGramTile) {
      const std::int64_t breadth = std::min(kGramTile, cols.count - col);
      const bool symmetric = square && col == row;
      const std::vector<double> products =
          view_products(multiplier, row_side,
                        symmetric ? std::vector<decode::EncodedMatrix>()
                                  : row_views(square ? left : right, width, col, breadth));
      for (std::int64_t i = 0; i < height; ++i) {
        for (std::int64_t j = 0; j < breadth; ++j) {
          const bool same = rows.first + row + i == cols.first + col + j;
          const double value = products[static_cast<std::size_t>(i * breadth + j)] +
                               left_terms[static_cast<std::size_t>(row + i)] +
                               right_terms[static_cast<std::size_t>(col + j)];
          const float stored = same ? 0.0F : static_cast<float>(value * layer.sums->kernel_scale);
          block[static_cast<std::size_t>((row + i) * cols.count + col + j)] = stored;
          if (square && !symmetric) {
            block[static_cast<std::size_t>((col + j) * cols.count + row + i)] = stored;
          }
        }
      }
    }
  }
  return block;
}

double vector_product(const std::vector<float>& a, const std::vector<float>& b) {
  constexpr std::size_t kPiece = 1U << 16U;
  const std::size_t pieces = (a.size() + kPiece - 1) / kPiece;
  std::vector<double> sums(pieces, 0.0);
  for_each_index(pieces, a.size() < kThreadedElements ? 1 : thread_count(0),
                 [&](std::size_t /*worker*/, std::size_t piece) {
                   const std::size_t first = piece * kPiece;
                   const std::size_t count = std::min(a.size() - first, kPiece);
                   sums[piece] = float_dot(std::span(a).subspan(first, count), b.data() + first);
                 });
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

std::vector<double> vector_products(const Multiplier& multiplier,
                                    std::span<const std::vector<float>> left,
                                    std::span<const std::vector<float>> right) {
  const auto length = static_cast<std::int64_t>(left.front().size());
  const std::int64_t piece = std::min(length, kVectorPiece);
  const auto sums =
      multiplier.backend.inner_products({.left = static_cast<std::int64_t>(left.size()),
                                         .right = static_cast<std::int64_t>(right.size()),
                                         .cols = piece,
                                         .threads = threads_for(multiplier, left.front().size()),
                                         .stop = multiplier.stop});
  for (std::int64_t first = 0; first < length; first += piece) {
    const std::int64_t count = std::min(piece, length - first);
    const auto views = [&](std::span<const std::vector<float>> vectors) {
      std::vector<decode::EncodedMatrix> out;
      for (const std::vector<float>& vector : vectors) {
        out.push_back(decode::float32_view(vector.data() + first, 1, count));
      }
      return out;
    };
    const auto left_views = views(left);
    const auto right_views = views(right);
    sums->add(VectorSlab{.matrices = left_views}, VectorSlab{.matrices = right_views});
  }
  std::vector<double> out(left.size() * right.size());
  sums->read(out);
  return out;
}

}  // namespace vindex::commands
