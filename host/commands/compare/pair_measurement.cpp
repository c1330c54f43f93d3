// Owns the measurements of one pair: comparison, spectrum of the difference, overlap of subspaces.
#include "pair_measurement.hpp"

#include "pair_cells.hpp"

#include "engine/run/job.hpp"
#include "statistics/spectrum/metrics.hpp"
#include "statistics/spectrum/subspace_overlap.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace vindex::commands {

/// An input that remembers that reading it failed, so that the trouble of a pair names its side,
/// and that is not released by a back end.
class PairSide::WatchedInput final : public ForwardingInput {
 public:
  using ForwardingInput::ForwardingInput;
  decode::EncodedMatrix row_slab(std::int64_t first, std::int64_t count) override {
    return watched([&] { return inner().row_slab(first, count); });
  }
  decode::EncodedMatrix column_slab(std::int64_t first, std::int64_t count) override {
    return watched([&] { return inner().column_slab(first, count); });
  }
  void release() override {}
  bool has_failed() const { return has_failed_; }

 private:
  template <typename Read>
  decode::EncodedMatrix watched(Read read) {
    has_failed_ = true;
    decode::EncodedMatrix slab = read();
    has_failed_ = false;
    return slab;
  }

  bool has_failed_ = false;
};

PairSide::PairSide(std::span<MatrixInput* const> inputs) {
  for (MatrixInput* const input : inputs) {
    watched_.push_back(std::make_unique<WatchedInput>(*input));
  }
  input_ = watched_.front().get();
  if (watched_.size() > 1) {
    std::vector<StackedPart> parts;
    for (std::size_t i = 0; i < watched_.size(); ++i) {
      parts.push_back({.input = watched_[i].get(), .transposed = i % 2 == 0});
    }
    stacked_ = make_stacked_input(std::move(parts));
    input_ = stacked_.get();
  }
}

PairSide::~PairSide() = default;
PairSide::PairSide(PairSide&&) noexcept = default;

void PairSide::reorder(std::int64_t height, RotaryRows to) {
  reordered_ = make_rotary_input(*input_, height, to);
  input_ = reordered_.get();
}

bool PairSide::has_failed() const {
  return std::any_of(watched_.begin(), watched_.end(),
                     [](const auto& input) { return input->has_failed(); });
}

namespace {

results::ResultRow row_of_report(const statistics::PairReport& report, std::int64_t subspace) {
  results::ResultRow row;
  row.status = report.status;
  row.reason = report.reason;
  row.cells = results::empty_cells(kPairTable, static_cast<std::size_t>(subspace));
  const auto set = [&](std::size_t cell, double value) { row.cells[cell] = value; };
  set(pair_cell("same_bits"), report.same_bits ? 1.0 : 0.0);
  set(pair_cell("cosine"), report.cosine);
  set(pair_cell("norm_a"), report.norm_a);
  set(pair_cell("norm_b"), report.norm_b);
  set(pair_cell("relative_error"), report.relative_error);
  set(pair_cell("max_abs_difference"), report.max_abs_difference);
  return row;
}

/// What a back end found of one input, or why it found nothing.
struct Measured {
  MatrixReport report;
  std::exception_ptr error = nullptr;
};

/// Memory trouble halves the batch; trouble of one matrix is its own.
void measure_part(std::span<MatrixInput* const> inputs, Backend& backend,
                  const MeasureOptions& options, std::uint64_t workspace_limit,
                  std::span<Measured> out) {
  std::vector<MatrixReport> reports(inputs.size());
  std::exception_ptr error;
  try {
    backend.measure(inputs, options, workspace_limit, reports);
  } catch (const DeviceError&) {
    throw;
  } catch (const std::exception&) {
    error = std::current_exception();
  }
  if (error != nullptr && inputs.size() > 1) {
    const std::size_t half = inputs.size() / 2;
    measure_part(inputs.first(half), backend, options, workspace_limit, out.first(half));
    measure_part(inputs.subspan(half), backend, options, workspace_limit, out.subspan(half));
    return;
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    inputs[i]->release();  // what is watched keeps its bytes: buffers of arranged inputs alone
    out[i] = {std::move(reports[i]), error};
  }
}

std::vector<Measured> measure_all(const std::vector<MatrixInput*>& inputs, Backend& backend,
                                  const MeasureOptions& options, std::uint64_t workspace_limit) {
  std::vector<Measured> out(inputs.size());
  if (!inputs.empty()) {
    measure_part(inputs, backend, options, workspace_limit, out);
  }
  return out;
}

/// The report of B - A where they differ nowhere: what a back end says of a zero matrix.
MatrixReport zero_report(const PairInWork& pair, SpectrumMode mode) {
  constexpr std::int64_t kTop = 64;
  const std::int64_t p = std::min(pair.rows, pair.cols);
  MatrixReport report;
  report.status = MatrixStatus::kMeasured;
  report.sigma.assign(static_cast<std::size_t>(mode == SpectrumMode::kFast ? std::min(p, kTop) : p),
                      0.0);
  report.sigma_error = 0.0;
  report.moments.count = report.moments.zeros = pair.rows * pair.cols;
  report.moments.min = report.moments.max = 0.0;
  return report;
}

void set_delta(PairInWork& pair, const MatrixReport& report, SpectrumMode mode,
               statistics::NullCache& nulls) {
  results::ResultRow& row = pair.row;
  const auto set = [&](std::size_t cell, double value) { row.cells[cell] = value; };
  const statistics::MetricValues& null = nulls.of(pair.rows, pair.cols);
  using statistics::Metric;
  set(pair_cell("delta_stable_rank_null"), null[Metric::kStableRank]);
  set(pair_cell("delta_effective_rank_null"), null[Metric::kEffectiveRank]);
  set(pair_cell("delta_theta_null"), null[Metric::kTheta]);
  std::copy(null.var_at_k.begin(), null.var_at_k.end(),
            row.cells.begin() + pair_cell("delta_var_at_k_null"));
  if (report.status != MatrixStatus::kMeasured) {
    engine::add_reason(
        row, "delta: " + (report.reason.empty() ? std::string("not measured") : report.reason));
    return;
  }
  std::string why = report.reason;
  const statistics::MetricValues values =
      statistics::derive_metrics(pair.rows, pair.cols, report, mode, why);
  if (!why.empty()) {
    engine::add_reason(row, "delta: " + why);
  }
  row.method = report.method;
  set(pair_cell("delta_frobenius_norm"), values[Metric::kFrobeniusNorm]);
  set(pair_cell("delta_spectral_norm"), values[Metric::kSpectralNorm]);
  // stable_rank_null is the mean of F2 / l_1 by the mean spectrum.
  set(pair_cell("delta_spectral_norm_null"),
      values[Metric::kFrobeniusNorm] / std::sqrt(null[Metric::kStableRank]));
  set(pair_cell("delta_stable_rank"), values[Metric::kStableRank]);
  set(pair_cell("delta_effective_rank"), values[Metric::kEffectiveRank]);
  set(pair_cell("delta_rank_gd"), values[Metric::kRankGd]);
  set(pair_cell("delta_rank_edge"), values[Metric::kRankEdge]);
  set(pair_cell("delta_numerical_rank"), values[Metric::kNumericalRank]);
  set(pair_cell("delta_theta"), values[Metric::kTheta]);
  set(pair_cell("delta_mp_scale"), values[Metric::kMpScale]);
  set(pair_cell("delta_sigma_error"), report.sigma_error);
  std::copy(values.var_at_k.begin(), values.var_at_k.end(),
            row.cells.begin() + pair_cell("delta_var_at_k"));
}

void set_overlap(PairInWork& pair, const MatrixReport& a, const MatrixReport& b,
                 std::int64_t count) {
  results::ResultRow& row = pair.row;
  const auto set = [&](std::size_t cell, double value) { row.cells[cell] = value; };
  const std::int64_t p = std::min(pair.rows, pair.cols);
  const statistics::SubspaceGap gap_a = statistics::subspace_gap(a, count, p);
  const statistics::SubspaceGap gap_b = statistics::subspace_gap(b, count, p);
  set(pair_cell("gap_a"), gap_a.relative);
  set(pair_cell("gap_b"), gap_b.relative);
  // What is set apart from the rest by nothing is the same of equal weights all the same.
  const bool is_same = row.cells[pair_cell("same_bits")] == 1.0;
  bool is_definite = true;
  for (const auto& [side, gap] : {std::pair("A", &gap_a), std::pair("B", &gap_b)}) {
    if (!gap->error.empty() && !(is_same && gap->is_found)) {
      engine::add_reason(row, fmt::format("no definite top {} of {}: {}", count, side, gap->error));
      is_definite = false;
    }
  }
  if (!is_definite) {
    return;
  }
  const auto overlap_of = [&](const char* which, const std::vector<float>& left,
                              const std::vector<float>& right, std::int64_t length,
                              std::size_t cell, std::size_t first_angle) {
    const auto size = static_cast<std::size_t>(count * length);
    const std::optional<statistics::SubspaceOverlap> overlap = statistics::subspace_overlap(
        std::span(left).first(size), std::span(right).first(size), count, length);
    if (!overlap) {
      engine::add_reason(
          row, fmt::format("the top {} {} vectors of a side depend on each other", count, which));
      return;
    }
    set(cell, overlap->overlap);
    std::copy(overlap->angles.begin(), overlap->angles.end(),
              row.cells.begin() + static_cast<std::ptrdiff_t>(first_angle));
  };
  overlap_of("right", a.vectors->right, b.vectors->right, pair.cols, pair_cell("overlap_right"),
             pair_cell("angles_right"));
  overlap_of("left", a.vectors->left, b.vectors->left, pair.rows, pair_cell("overlap_left"),
             pair_cell("angles_right") + static_cast<std::size_t>(count));
}

/// The pairs of which a back end can still find something.
std::vector<PairInWork*> open_pairs(std::span<PairInWork> pairs) {
  std::vector<PairInWork*> open;
  for (PairInWork& pair : pairs) {
    if (pair.is_open()) {
      open.push_back(&pair);
    }
  }
  return open;
}

}  // namespace

bool is_other_order(const statistics::PairReport& as_stored,
                    const statistics::PairReport& reordered, double deviation) {
  constexpr double kBeyondChance = 10.0;
  return reordered.status == MatrixStatus::kMeasured &&
         reordered.cosine > as_stored.cosine + kBeyondChance * deviation;
}

void compare_pair(PairInWork& pair, std::int64_t subspace) {
  constexpr double kSurelyAlike = 0.99;
  try {
    const double deviation = statistics::cosine_null_deviation(pair.rows, pair.cols);
    statistics::PairReport report = statistics::compare_matrices(pair.a.input(), pair.b.input());
    if (pair.order.height > 0 && report.cosine < kSurelyAlike) {
      const auto reordered = make_rotary_input(pair.b.input(), pair.order.height, pair.order.of_a);
      const statistics::PairReport other = statistics::compare_matrices(pair.a.input(), *reordered);
      if (is_other_order(report, other, deviation)) {
        report = other;
        report.reason =
            fmt::format("rows of B put into the order of A: in heads of {}, {}", pair.order.height,
                        pair.order.of_a == RotaryRows::kHalves ? "rotated pairs to halves"
                                                               : "halves to rotated pairs");
        pair.b.reorder(pair.order.height, pair.order.of_a);
      }
    }
    pair.row = row_of_report(report, subspace);
    const auto set = [&](std::size_t cell, double value) { pair.row.cells[cell] = value; };
    set(pair_cell("cosine_null_sd"), deviation);
    if (subspace > 0 && subspace <= std::min(pair.rows, pair.cols)) {
      const statistics::OverlapNull right = statistics::subspace_overlap_null(subspace, pair.cols);
      const statistics::OverlapNull left = statistics::subspace_overlap_null(subspace, pair.rows);
      set(pair_cell("overlap_right_null"), right.mean);
      set(pair_cell("overlap_right_null_sd"), right.deviation);
      set(pair_cell("overlap_left_null"), left.mean);
      set(pair_cell("overlap_left_null_sd"), left.deviation);
    }
  } catch (const std::exception&) {
    pair.error = std::current_exception();
  }
}

void add_deltas(std::span<PairInWork> pairs, Backend& backend, const PairRequest& request,
                std::uint64_t workspace_limit, statistics::NullCache& nulls) {
  std::vector<PairInWork*> members;
  std::vector<std::unique_ptr<MatrixInput>> differences;
  std::vector<MatrixInput*> batch;
  for (PairInWork* const pair : open_pairs(pairs)) {
    if (pair->row.cells[pair_cell("max_abs_difference")] == 0.0) {
      set_delta(*pair, zero_report(*pair, request.options.mode), request.options.mode, nulls);
      continue;
    }
    members.push_back(pair);
    differences.push_back(make_difference_input(pair->a.input(), pair->b.input()));
    batch.push_back(differences.back().get());
  }
  MeasureOptions options = request.options;
  options.vectors = 0;
  const std::vector<Measured> found = measure_all(batch, backend, options, workspace_limit);
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (found[i].error != nullptr) {
      members[i]->error = found[i].error;
    } else {
      set_delta(*members[i], found[i].report, options.mode, nulls);
    }
  }
}

void add_subspaces(std::span<PairInWork> pairs, Backend& backend, const PairRequest& request,
                   std::uint64_t workspace_limit) {
  std::vector<PairInWork*> members;
  for (PairInWork* const pair : open_pairs(pairs)) {
    const std::int64_t p = std::min(pair->rows, pair->cols);
    if (request.subspace > p) {
      engine::add_reason(pair->row,
                         fmt::format("no top {}: its short side is {}", request.subspace, p));
    } else {
      members.push_back(pair);
    }
  }
  MeasureOptions options = request.options;
  options.vectors = static_cast<std::int32_t>(request.subspace);
  std::vector<MatrixInput*> left, right;
  for (PairInWork* const pair : members) {
    left.push_back(&pair->a.input());
    right.push_back(&pair->b.input());
  }
  const std::vector<Measured> of_a = measure_all(left, backend, options, workspace_limit);
  const std::vector<Measured> of_b = measure_all(right, backend, options, workspace_limit);
  for (std::size_t i = 0; i < members.size(); ++i) {
    const std::exception_ptr error = of_a[i].error != nullptr ? of_a[i].error : of_b[i].error;
    if (error != nullptr) {
      members[i]->error = error;
    } else {
      set_overlap(*members[i], of_a[i].report, of_b[i].report, request.subspace);
    }
  }
}

}  // namespace vindex::commands
