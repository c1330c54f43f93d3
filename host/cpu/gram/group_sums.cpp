// Owns the pass over both matrices of sums, and the pivots of a Cholesky factor of some lines.
#include "group_sums.hpp"

#include "gram.hpp"

#include "blas/steps/steps.hpp"
#include "core/integers.hpp"
#include "statistics/judgement/spectrum_bounds.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace vindex::cpu {
namespace {

template <typename Real>
SpectrumOutline outline(const Real* gram, std::int64_t p, const SummedRows& rows,
                        Workspace& workspace) {
  SpectrumOutline out;
  out.trace = rows.trace;
  out.norm_squared = rows.norm_squared;
  const std::vector<std::int64_t> lines = nonzero_lines(gram, p);
  const auto count = static_cast<std::int64_t>(lines.size());
  const std::int64_t order = outline_order(count, rows.summed);
  if (order == 0 || !(out.trace > 0.0)) {
    return out;
  }
  // Evenly spread: neighbours may be more alike than others.
  const auto line = [&](std::int64_t i) { return lines[as_size(i * (count / order))]; };
  WorkArray<float> part(workspace, order * order, "some lines of the Gram matrix");
  const double scale = static_cast<double>(p) / out.trace;
  for (std::int64_t j = 0; j < order; ++j) {
    const Real* const column = gram + line(j) * p;
    for (std::int64_t i = 0; i <= j; ++i) {
      part[j * order + i] = static_cast<float>(scale * static_cast<double>(column[line(i)]));
    }
  }
  if (!blas::steps::potrf(order, {part.data(), order}, workspace.stop())) {
    return out;
  }
  // k others leave of a column over m rows a part that is (1 - k / m) of that over many.
  const auto left = [](std::int64_t k, std::int64_t m) {
    return 1.0 - static_cast<double>(k) / static_cast<double>(m);
  };
  std::vector<double> pivots;
  for (std::int64_t k = 0; k < order; ++k) {
    const auto root = static_cast<double>(part[k * order + k]);
    pivots.push_back(root * root / scale * left(k, rows.all) / left(k, rows.summed));
  }
  std::sort(pivots.begin(), pivots.end(), std::greater<>());
  out.seen = static_cast<double>(order) / static_cast<double>(count);
  out.level = pivots.back();
  out.half = pivots[as_size(order / 2)];
  out.quarter = pivots[as_size(order / 4)];
  // The k-th pivot is about a p-th of the sum of the values behind k, so those between k and 2 k
  // have a mean of the difference.
  const double behind = pivots[as_size(std::min(statistics::kFastValues, order) - 1)];
  const double further = pivots[as_size(std::min(2 * statistics::kFastValues, order) - 1)];
  out.top = std::max(behind, (behind - further) * static_cast<double>(count) /
                                 static_cast<double>(statistics::kFastValues));
  return out;
}

}  // namespace

GroupSums::GroupSums(const SvdPlan& plan, float* partial, Workspace& workspace)
    : plan_(plan), partial_(partial), workspace_(workspace) {
  begin();
}

void GroupSums::begin() {
  waiting_ = 0;
  first_line_norms_squared_ = 0.0;
  cubes_ = 0.0;
  group_ = first_group_rows(plan_.short_side, plan_.chunk);
  is_decided_ = false;
  kind_ = GramSums::kNarrow;
  wide_.reset();
}

void GroupSums::decide() {
  const std::int64_t p = plan_.short_side;
  const DiagonalNorms diagonal = diagonal_norms(partial_, p);
  const FirstGroup group = {.p = p,
                            .n = plan_.long_side,
                            .chunk = plan_.chunk,
                            .rows = waiting_,
                            .norms = {.sum_squares = diagonal.trace,
                                      .gram_norm_squared = symmetric_norm_squared(partial_, p),
                                      .diagonal_norm_squared = diagonal.norm_squared,
                                      .largest_diagonal = diagonal.largest,
                                      .line_norms_squared = first_line_norms_squared_}};
  const SummedRows rows = {.summed = waiting_,
                           .all = plan_.long_side,
                           .trace = group.norms.sum_squares,
                           .norm_squared = group.norms.gram_norm_squared};
  kind_ = is_like_noise(group) ? GramSums::kNarrow
                               : choose_sums(group, outline_of(partial_, p, rows, workspace_));
  is_decided_ = true;
  group_ = ceil_divide(kGroupRows, plan_.chunk) * plan_.chunk;
}

void GroupSums::take_group() {
  const std::int64_t p = plan_.short_side;
  const bool is_first = wide_.size() == 0;
  if (is_first) {
    wide_ = WorkArray<double>(workspace_, p * p, "the Gram matrix");
  }
  for (std::int64_t j = 0; j < p; ++j) {
    float* const from = partial_ + j * p;
    double* const to = wide_.data() + j * p;
    if (is_first) {
      std::copy_n(from, j + 1, to);
    } else {
      for (std::int64_t i = 0; i <= j; ++i) {
        to[i] += static_cast<double>(from[i]);
      }
    }
    std::fill_n(from, j + 1, 0.0F);
  }
  cubes_ += std::pow(static_cast<double>(waiting_), 3.0);
  waiting_ = 0;
}

void GroupSums::see(const Tile& tile, double line_norms_squared) {
  // What is decided must not depend on how many tiles are seen at a time.
  if (tile.first < first_group_rows(plan_.short_side, plan_.chunk)) {
    first_line_norms_squared_ = line_norms_squared;
  }
}

std::int64_t GroupSums::room() const {
  return is_decided_ && kind_ != GramSums::kGrouped ? std::numeric_limits<std::int64_t>::max()
                                                    : group_ - waiting_;
}

void GroupSums::added(std::int64_t rows) {
  if (is_decided_ && kind_ != GramSums::kGrouped) {
    return;
  }
  waiting_ += rows;
  if (waiting_ < group_) {
    return;
  }
  if (!is_decided_) {
    decide();
  }
  if (kind_ == GramSums::kGrouped) {
    take_group();
  }
}

void GroupSums::finish() {
  if (!is_decided_) {
    decide();
  }
  if (kind_ == GramSums::kGrouped && waiting_ > 0) {
    take_group();
  }
}

SpectrumOutline outline_of(const float* gram, std::int64_t p, const SummedRows& rows,
                           Workspace& workspace) {
  return outline(gram, p, rows, workspace);
}

SpectrumOutline outline_of(const double* gram, std::int64_t p, const SummedRows& rows,
                           Workspace& workspace) {
  return outline(gram, p, rows, workspace);
}

std::uint64_t outline_bytes(std::int64_t p) {
  const std::int64_t order = outline_order(p, p);
  return array_bytes(order * order, sizeof(float));
}

}  // namespace vindex::cpu
