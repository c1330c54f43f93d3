// Owns the steps for one matrix, and the memory that they take.
#include "purify_matrix.hpp"

#include "purify_methods.hpp"

#include "core/integers.hpp"
#include "decode/decode_matrix.hpp"
#include "decode/encode/encode.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace vindex::purify {
namespace {

std::vector<float> decoded(const decode::EncodedMatrix& matrix) {
  std::vector<float> out(as_size(matrix.rows * matrix.cols));
  decode::decode_matrix(matrix, out.data(), matrix.cols);
  return out;
}

struct Encoded {
  std::vector<std::byte> codes;
  decode::EncodingLoss loss;
  bool holds() const {
    return std::isfinite(loss.squared_norm) && std::isfinite(loss.squared_error);
  }
};

Encoded encoded(decode::ElementType type, const std::vector<float>& values, std::int64_t rows,
                std::int64_t cols) {
  const decode::Encoding encoding = decode::plain_encoding(type);
  const auto size = decode::encoded_size(encoding, rows, cols);
  expects(size.has_value(), "a type that stores rows of that many weights");
  Encoded out;
  out.codes.resize(size->code_bytes);
  out.loss = decode::encode_matrix(encoding, values.data(), rows, cols, cols, out.codes, {});
  return out;
}

MatrixReport spectrum_of(const MatrixTools& tools, const decode::EncodedMatrix& matrix) {
  const auto input = make_memory_input(matrix);
  MatrixInput* const batch[] = {input.get()};
  MatrixReport report;
  tools.backend.measure(batch, {.stop = tools.options.stop}, 0, std::span(&report, 1));
  return report;
}

void leave(PurifiedMatrix& out, std::string_view outcome, std::string reason) {
  out.outcome = outcome;
  out.reason = std::move(reason);
}

/// Notes the gate's decision; false where it is shut.
bool pass_gate(const PurifyOptions& options, const decode::EncodedMatrix& matrix,
               std::optional<double> energy_removed, PurifiedMatrix& out) {
  const GateDecision gate =
      decide_gate(options.gate, matrix.rows, matrix.cols, *out.fit, energy_removed);
  out.verdict = gate.verdict;
  leave(out, gate.passes() ? "purified" : gate.word, gate.reason);
  return gate.passes();
}

/// Encodes a factor and keeps it. Nothing where the type cannot hold it.
std::optional<std::uint64_t> keep_factor(const MatrixTools& tools, const std::vector<float>& values,
                                         std::int64_t rows, std::int64_t cols) {
  const Encoded factor = encoded(tools.options.factor_type, values, rows, cols);
  if (!factor.holds()) {
    return std::nullopt;
  }
  return tools.factors->append(factor.codes);
}

bool keep_factors(const MatrixTools& tools, const LowRank& factors, PurifiedMatrix& out) {
  const auto a = keep_factor(tools, factors.a, factors.rank, factors.cols);
  const auto b = keep_factor(tools, factors.b, factors.rows, factors.rank);
  out.a_at = a.value_or(0);
  out.b_at = b.value_or(0);
  return a && b;
}

/// Encodes W' and keeps it; says what that costs. False where the type cannot hold it.
bool keep_weights(const MatrixTools& tools, decode::ElementType type, double norm,
                  const std::vector<float>& before, std::vector<float>& after,
                  const decode::EncodedMatrix& matrix, PurifiedMatrix& out) {
  const Encoded now = encoded(type, after, matrix.rows, matrix.cols);
  if (!now.holds()) {
    return false;
  }
  out.requantisation_error = now.loss.relative_error();
  out.visible = out.change->relative_change * norm > std::sqrt(now.loss.squared_error);
  const decode::Encoding encoding = decode::plain_encoding(type);
  decode::EncodedMatrix view;
  view.encoding = &encoding;
  view.rows = matrix.rows;
  view.cols = matrix.cols;
  view.codes = now.codes.data();
  view.row_stride_bytes = static_cast<std::int64_t>(now.codes.size()) / matrix.rows;
  decode::decode_matrix(view, after.data(), matrix.cols);
  out.written_change = change_of_weights(before, after).relative_change;
  if (tools.weights != nullptr) {
    out.codes_at = tools.weights->append(now.codes);
  }
  return true;
}

/// Most triplets that can be kept: values beyond the end of noise are a distance of their share
/// from the law, which the gate bounds.
std::int64_t max_triplets(const PurifyOptions& options, std::int64_t short_side) {
  const auto all = static_cast<double>(short_side);
  double share = options.gate.force ? 1.0 : options.gate.largest_ks;
  if (options.rule.method == PurifyMethod::kLaser) {
    share = options.rule.rank_share;
  }
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(std::ceil(share * all)), 1, short_side);
}

}  // namespace

PurifiedMatrix purify_matrix(const MatrixTools& tools, const decode::EncodedMatrix& matrix,
                             decode::ElementType out_type) {
  const PurifyOptions& options = tools.options;
  const bool other_type = options.encode && out_type != matrix.encoding->type;
  PurifiedMatrix out;
  const MatrixReport report = spectrum_of(tools, matrix);
  if (report.status != MatrixStatus::kMeasured) {
    out.storable = false;
    leave(out, report.status == MatrixStatus::kNotFinite ? "not finite" : "failed", report.reason);
    return out;
  }
  std::vector<float> before;
  if (other_type) {
    before = decoded(matrix);
    const Encoded same = encoded(out_type, before, matrix.rows, matrix.cols);
    out.nothing_error = same.loss.relative_error();
    out.storable = same.holds();
  }
  out.norm_squared = report.moments.sum_squares;
  if (report.sigma.empty() || !(report.sigma.front() > 0.0)) {
    leave(out, "zero", "every weight is zero: there is nothing to purify");
    return out;
  }
  out.fit = fit_noise(matrix.rows, matrix.cols, report.sigma);
  const bool spectral = is_spectral(options.rule.method);
  std::vector<double> kept;
  if (spectral) {
    kept = kept_values(options.rule, *out.fit, report.sigma);
    out.rank = static_cast<std::int64_t>(kept.size());
    out.change = change_of_values(report.sigma, kept);
  }
  if (!pass_gate(options, matrix, {}, out) ||
      (spectral && !pass_gate(options, matrix, out.change->energy_removed, out))) {
    return out;
  }
  LowRank factors;
  if (spectral) {
    factors = low_rank_of(tools.backend, matrix, kept, options.stop);
    out.residual = factors.residual;
    if (!factors.failure.empty()) {
      leave(out, "failed", factors.failure);
      return out;
    }
  }
  if (before.empty()) {
    before = decoded(matrix);
  }
  std::vector<float> after;
  if (spectral) {
    after.resize(before.size());
    multiply_out(factors, after);
  } else {
    after = before;
    purify_flat(options.rule, after);
    out.change = change_of_weights(before, after);
    if (!pass_gate(options, matrix, out.change->energy_removed, out)) {
      return out;
    }
  }
  const double norm = std::sqrt(out.norm_squared);
  if (options.encode && !keep_weights(tools, out_type, norm, before, after, matrix, out)) {
    leave(out, "overflow",
          fmt::format("a weight is beyond what {} holds", decode::element_type_row(out_type).name));
    return out;
  }
  if (spectral && tools.factors != nullptr && !keep_factors(tools, factors, out)) {
    leave(out, "overflow",
          fmt::format("a factor is beyond what {} holds",
                      decode::element_type_row(options.factor_type).name));
    return out;
  }
  out.changed = true;
  return out;
}

std::uint64_t purify_matrix_bytes(const Backend& backend, const PurifyOptions& options,
                                  const decode::Encoding& encoding, std::int64_t rows,
                                  std::int64_t cols) {
  const auto count = static_cast<std::uint64_t>(rows) * static_cast<std::uint64_t>(cols);
  const std::uint64_t before =
      decode::code_bytes(encoding, as_size(rows), as_size(cols)).value_or(0);
  // W, W', and W' encoded, at most as F64.
  const std::uint64_t weights = before + count * (4 + 4 + 8);
  MeasureOptions measured;
  std::uint64_t work = backend.workspace_bytes(encoding, rows, cols, measured, InputBytes::kHeld);
  if (!is_spectral(options.rule.method)) {
    return weights + std::max(work, flat_method_bytes(options.rule.method, count));
  }
  const std::int64_t rank = max_triplets(options, std::min(rows, cols));
  measured.vectors = static_cast<std::int32_t>(rank);
  work = std::max(work, backend.workspace_bytes(encoding, rows, cols, measured, InputBytes::kHeld));
  return weights + work + as_size(rank * (rows + cols)) * 2 * sizeof(float);
}

}  // namespace vindex::purify
