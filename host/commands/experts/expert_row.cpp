// Owns stacks of bases and their overlaps, block of experts by block, and the translation of a
// measured group into cells, arrays and the reason of what is missing.
#include "expert_row.hpp"

#include "experts_cells.hpp"

#include "decode/encoding/encoded_matrix.hpp"
#include "statistics/spectrum/subspace_overlap.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stop_token>

namespace vindex::commands {

namespace {

/// Vectors on a side of one product, about.
constexpr std::int64_t kBlockVectors = 512;

std::int64_t block_experts(std::int64_t vectors) {
  return std::max<std::int64_t>(1, kBlockVectors / std::max<std::int64_t>(vectors, 1));
}

InnerProductShape block_shape(std::int64_t experts, std::int64_t vectors, std::int64_t length,
                              std::int32_t threads) {
  const std::int64_t side = std::min(experts, block_experts(vectors)) * vectors;
  return {.left = side, .right = side, .cols = length, .threads = threads};
}

/// Every vector of experts [first, first + count) as a matrix of one row.
std::vector<decode::EncodedMatrix> rows_of(const SubspaceStack& stack, std::int64_t first,
                                           std::int64_t count) {
  std::vector<decode::EncodedMatrix> rows(static_cast<std::size_t>(count * stack.vectors));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::int64_t vector = first * stack.vectors + static_cast<std::int64_t>(i);
    if (!stack.known[static_cast<std::size_t>(vector / stack.vectors)]) {
      continue;  // stays without an encoding: zeros
    }
    rows[i] = decode::float32_view(stack.values.data() + vector * stack.length, 1, stack.length);
  }
  return rows;
}

/// |block|_F^2 of rows [row, row + size) x columns [col, col + size).
double squares_of(const std::vector<double>& products, std::int64_t stride, std::int64_t row,
                  std::int64_t col, std::int64_t size) {
  double sum = 0.0;
  for (std::int64_t i = row; i < row + size; ++i) {
    for (std::int64_t j = col; j < col + size; ++j) {
      const double product = products[static_cast<std::size_t>(i * stride + j)];
      sum += product * product;
    }
  }
  return sum;
}

}  // namespace

SubspaceStack::SubspaceStack(std::int64_t expert_count, std::int64_t vector_count,
                             std::int64_t vector_length)
    : experts(expert_count),
      vectors(vector_count),
      length(vector_length),
      values(static_cast<std::size_t>(experts * vectors * length)),
      known(static_cast<std::size_t>(experts), false) {}

void SubspaceStack::keep(std::int64_t expert, const std::vector<float>& rows) {
  const std::int64_t count = vectors * length;
  std::copy_n(rows.begin(), count, values.begin() + static_cast<std::ptrdiff_t>(expert * count));
  known[static_cast<std::size_t>(expert)] = true;
}

std::vector<float> subspace_overlaps(Backend& backend, const SubspaceStack& stack,
                                     std::int32_t threads, const std::stop_token& stop) {
  const std::int64_t step = block_experts(stack.vectors);
  const std::int64_t experts = stack.experts;
  std::vector<float> out(static_cast<std::size_t>(experts * experts),
                         std::numeric_limits<float>::quiet_NaN());
  std::vector<double> products;
  for (std::int64_t a = 0; a < experts; a += step) {
    const std::int64_t count_a = std::min(step, experts - a);
    const auto left = rows_of(stack, a, count_a);
    for (std::int64_t b = 0; b <= a; b += step) {
      const std::int64_t count_b = std::min(step, experts - b);
      const auto right = rows_of(stack, b, count_b);
      const auto sums = backend.inner_products({.left = count_a * stack.vectors,
                                                .right = count_b * stack.vectors,
                                                .cols = stack.length,
                                                .threads = threads,
                                                .stop = stop});
      sums->add({.matrices = left}, {.matrices = right});
      products.resize(left.size() * right.size());
      sums->read(products);
      for (std::int64_t i = a; i < a + count_a; ++i) {
        for (std::int64_t j = b; j < std::min(b + count_b, i + 1); ++j) {
          if (!stack.known[static_cast<std::size_t>(i)] ||
              !stack.known[static_cast<std::size_t>(j)]) {
            continue;
          }
          const double shared =
              squares_of(products, count_b * stack.vectors, (i - a) * stack.vectors,
                         (j - b) * stack.vectors, stack.vectors) /
              static_cast<double>(stack.vectors);
          const auto value = i == j ? 1.0F : static_cast<float>(std::clamp(shared, 0.0, 1.0));
          out[static_cast<std::size_t>(i * experts + j)] = value;
          out[static_cast<std::size_t>(j * experts + i)] = value;
        }
      }
    }
  }
  return out;
}

std::uint64_t subspace_overlap_bytes(const Backend& backend, std::int64_t experts,
                                     std::int64_t vectors, std::int64_t length,
                                     std::int32_t threads) {
  const InnerProductShape shape = block_shape(experts, vectors, length, threads);
  const auto products = static_cast<std::uint64_t>(shape.left * shape.right);
  const auto views = static_cast<std::uint64_t>(shape.left + shape.right);
  return backend.inner_product_memory(shape).host + products * sizeof(double) +
         views * sizeof(decode::EncodedMatrix) +
         static_cast<std::uint64_t>(experts * experts) * sizeof(float);
}

namespace {

/// Troubles reported one by one; beyond it a count.
constexpr std::size_t kMaxTold = 8;

/// Why rows and columns of arrays are NaN.
std::string reason_of(const model::ExpertGroup& group, const ExpertFindings& found) {
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < group.members.size(); ++i) {
    if (!group.members[i].error.empty()) {
      texts.push_back(fmt::format("expert {}: {}", i, group.members[i].error));
    }
  }
  for (const auto& [number, error] : found.lost) {
    texts.push_back(fmt::format("expert {}: {}", number, engine::failed_row(error).reason));
  }
  for (const std::string* part : {&found.cosines.reason, &found.spectrum.reason}) {
    if (!part->empty()) {
      texts.push_back(*part);
    }
  }
  texts.insert(texts.end(), found.notes.begin(), found.notes.end());
  const std::size_t more = texts.size() > kMaxTold ? texts.size() - kMaxTold : 0;
  texts.resize(texts.size() - more);
  if (more > 0) {
    texts.push_back(fmt::format("and {} more", more));
  }
  return fmt::format("{}", fmt::join(texts, "; "));
}

/// Over the pairs that are known; NaN where there are none.
struct PairMean {
  double mean = std::numeric_limits<double>::quiet_NaN();
  double pairs = 0.0;
};

PairMean mean_of_pairs(const std::vector<float>& values, std::size_t n) {
  PairMean out;
  double sum = 0.0;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (!std::isnan(values[i * n + j])) {
        sum += static_cast<double>(values[i * n + j]);
        out.pairs += 1.0;
      }
    }
  }
  if (out.pairs > 0.0) {
    out.mean = sum / out.pairs;
  }
  return out;
}

double number_or_nan(std::int64_t number) {
  return number < 0 ? std::numeric_limits<double>::quiet_NaN() : static_cast<double>(number);
}

}  // namespace

results::ResultRow expert_row(const model::ExpertGroup& group, const ExpertFindings& found,
                              std::int64_t experts) {
  results::ResultRow row;
  row.status = MatrixStatus::kMeasured;
  row.method = found.method;
  row.reason = reason_of(group, found);
  if (!found.lost.empty()) {
    row.error_class = engine::failed_row(found.lost.front().second).error_class;
  }
  row.cells = results::empty_cells(kExpertsTable);
  const auto& [plain, centred] = std::tie(found.cosines.plain, found.cosines.centred);
  row.cells[experts_cell("experts")] = static_cast<double>(group.members.size());
  row.cells[experts_cell("experts_counted")] = static_cast<double>(found.cosines.counted);
  row.cells[experts_cell("cosine_mean")] = plain.mean;
  row.cells[experts_cell("cosine_max")] = plain.max;
  row.cells[experts_cell("cosine_max_expert")] = number_or_nan(plain.expert);
  row.cells[experts_cell("cosine_max_other")] = number_or_nan(plain.other);
  row.cells[experts_cell("cosine_null")] = plain.null;
  row.cells[experts_cell("cosine_null_sd")] = plain.null_sd;
  row.cells[experts_cell("cosine_mean_null_sd")] = plain.null_mean_sd;
  row.cells[experts_cell("cosine_max_null")] = plain.null_most;
  row.cells[experts_cell("cosine_max_null_sd")] = plain.null_most_sd;
  row.cells[experts_cell("cosine_centred_mean")] = centred.mean;
  row.cells[experts_cell("cosine_centred_max")] = centred.max;
  row.cells[experts_cell("cosine_centred_max_expert")] = number_or_nan(centred.expert);
  row.cells[experts_cell("cosine_centred_max_other")] = number_or_nan(centred.other);
  row.cells[experts_cell("cosine_centred_null")] = centred.null;
  row.cells[experts_cell("cosine_centred_null_sd")] = centred.null_sd;
  row.cells[experts_cell("cosine_centred_mean_null")] = centred.null_mean;
  row.cells[experts_cell("cosine_centred_mean_null_sd")] = centred.null_mean_sd;
  row.cells[experts_cell("cosine_centred_max_null")] = centred.null_most;
  row.cells[experts_cell("cosine_centred_max_null_sd")] = centred.null_most_sd;
  row.cells[experts_cell("mean_expert_share")] = found.cosines.mean_share;
  row.cells[experts_cell("mean_expert_share_null")] = found.cosines.mean_share_null;
  row.cells[experts_cell("rank_90")] = found.spectrum.rank_90;
  row.cells[experts_cell("rank_90_null")] = found.spectrum.rank_90_null;
  row.cells[experts_cell("rank_90_null_sd")] = found.spectrum.rank_90_null_sd;
  row.cells[experts_cell("effective_rank")] = found.spectrum.effective_rank;
  row.cells[experts_cell("effective_rank_null")] = found.spectrum.effective_rank_null;
  row.cells[experts_cell("effective_rank_null_sd")] = found.spectrum.effective_rank_null_sd;

  const std::size_t n = group.members.size();
  const auto wide = static_cast<std::size_t>(experts);
  row.arrays.resize(kExpertsArrays.size());
  const auto square = [&](const std::vector<float>& values) {
    return results::ArrayCell(results::padded_array(values, n, n, wide, wide));
  };
  const auto line = [&](const std::vector<double>& values) {
    return results::ArrayCell(results::padded_array(values, 1, n, 1, wide));
  };
  row.arrays[experts_array("cosine")] = square(found.cosines.cosine);
  row.arrays[experts_array("cosine_centred")] = square(found.cosines.cosine_centred);
  row.arrays[experts_array("norm")] = line(found.cosines.norm);
  row.arrays[experts_array("expert_axis_spectrum")] = line(found.spectrum.values);
  row.arrays[experts_array("expert_axis_spectrum_null")] = line(found.spectrum.null_values);
  if (found.vectors > 0) {
    row.cells[experts_cell("overlap_k")] = static_cast<double>(found.vectors);
  }
  if (!found.overlap_right.empty()) {
    // Pairs that share an expert are uncorrelated: the other subspace is turned anyhow.
    const auto set = [&](const std::vector<float>& overlaps, std::int64_t side, std::size_t mean,
                         std::size_t null, std::size_t null_sd, std::size_t mean_null_sd) {
      const PairMean found_mean = mean_of_pairs(overlaps, n);
      const statistics::OverlapNull law = statistics::subspace_overlap_null(found.vectors, side);
      row.cells[mean] = found_mean.mean;
      row.cells[null] = law.mean;
      row.cells[null_sd] = law.deviation;
      if (found_mean.pairs > 0.0) {
        row.cells[mean_null_sd] = law.deviation / std::sqrt(found_mean.pairs);
      }
    };
    set(found.overlap_right, group.record.cols, experts_cell("overlap_right_mean"),
        experts_cell("overlap_right_null"), experts_cell("overlap_right_null_sd"),
        experts_cell("overlap_right_mean_null_sd"));
    set(found.overlap_left, group.record.rows, experts_cell("overlap_left_mean"),
        experts_cell("overlap_left_null"), experts_cell("overlap_left_null_sd"),
        experts_cell("overlap_left_mean_null_sd"));
    row.arrays[experts_array("overlap_right")] = square(found.overlap_right);
    row.arrays[experts_array("overlap_left")] = square(found.overlap_left);
  }
  return row;
}

}  // namespace vindex::commands
