// Owns the translation of a measured group into cells, arrays and the reason of what is missing.
#include "expert_row.hpp"

#include <vindex/measure/subspace_overlap.hpp>
#include <vindex/results/experts_cells.hpp>

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace vindex::jobs {

namespace {

using results::experts_array;
using results::experts_cell;

/// Troubles reported one by one; beyond it a count.
constexpr std::size_t kMaxTold = 8;

/// Why rows and columns of arrays are NaN.
std::string reason_of(const model::ExpertGroup& group, const ExpertFindings& found) {
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < group.members.size(); ++i) {
    if (!group.members[i].trouble.empty()) {
      texts.push_back(fmt::format("expert {}: {}", i, group.members[i].trouble));
    }
  }
  for (const auto& [number, trouble] : found.lost) {
    texts.push_back(fmt::format("expert {}: {}", number, engine::failed_row(trouble).reason));
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
  row.status = measure::Status::kMeasured;
  row.method = found.method;
  row.reason = reason_of(group, found);
  if (!found.lost.empty()) {
    row.error_class = engine::failed_row(found.lost.front().second).error_class;
  }
  row.cells = results::empty_cells(results::kExpertsTable);
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
  row.cells[experts_cell("effective_rank")] = found.spectrum.effective_rank;
  row.cells[experts_cell("effective_rank_null")] = found.spectrum.effective_rank_null;

  const std::size_t n = group.members.size();
  const auto wide = static_cast<std::size_t>(experts);
  row.arrays.resize(results::kExpertsArrays.size());
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
      const measure::OverlapNull law = measure::subspace_overlap_null(found.vectors, side);
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

}  // namespace vindex::jobs
