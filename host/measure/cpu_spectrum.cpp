#include "cpu_spectrum.hpp"

#include "cpu_tiles.hpp"
#include "gram.hpp"
#include "simd_gram_bf16.hpp"
#include "stopwatch.hpp"
#include "strict_qr.hpp"
#include "tridiagonal.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

namespace vindex::measure {
namespace {

/// Alarm of both self-checks, and condition above which `default` hands over to `strict`.
constexpr double kCheckAlarm = 3e-6;
constexpr double kEscalationCondition = 100.0;
/// A float64 Gram holds the promise of `strict` up to this many times p.
constexpr double kStrictConditionPerSize = 10.0;
/// Weights whose largest magnitude is within 2^-30 .. 2^30 give a float32 Gram that neither
/// overflows (n < 2^27) nor loses to underflow (2^27 2^-149 against 2^-60); the bfloat16 kernel,
/// which flushes subnormals, asks for 2^-32 .. 2^32.
constexpr int kSafeExponent = 30;

/// Singular values by one route, and what decides whether they are good enough.
struct Outcome {
  std::vector<double> sigma;  ///< descending; empty where an iteration did not converge
  bool negative = false;      ///< an eigenvalue of the Gram came out negative
  double gram_norm_squared = std::numeric_limits<double>::quiet_NaN();
  const char* method = "";
};

double condition(const std::vector<double>& sigma) {
  return sigma.back() > 0.0 ? sigma.front() / sigma.back()
                            : std::numeric_limits<double>::infinity();
}

/// Exponent that brings the largest weight near 1; 0 where a float32 Gram is safe as it is.
int gram_scale_exponent(double max_abs) {
  if (max_abs == 0.0) {
    return 0;
  }
  int exponent = 0;
  std::frexp(max_abs, &exponent);
  return std::abs(exponent) <= kSafeExponent ? 0 : std::clamp(-exponent, -126, 126);
}

/// Fills the upper triangle of `gram`. `library` true keeps to OpenBLAS; otherwise weights that are
/// exact in bfloat16 take the faster kernel in a pass that changes nothing.
template <typename Real>
void form_gram(TileReader& reader, const SvdPlan& plan, const TileChange& change, bool library,
               Workspace& workspace, Real* gram, double& seconds) {
  constexpr bool kWide = sizeof(Real) == sizeof(double);
  const std::int64_t p = plan.short_side;
  std::fill_n(gram, p * p, Real{0});
  WorkArray<double> wide(workspace, kWide ? plan.chunk * p : 0, "weights as doubles");
  WorkArray<std::byte> packed;
  std::optional<bool> exact_in_bf16;
  if (kWide || library || change.flip_signs || change.scale_exponent != 0 || !gram_bf16_is_fast()) {
    exact_in_bf16 = false;
  }
  const auto use_tile = [&](const Tile& tile) {
    if (tile.encoded == nullptr) {
      exact_in_bf16 = false;
    } else if (!exact_in_bf16.has_value()) {
      exact_in_bf16 = gram_bf16_takes(*tile.encoded, plan.row_slabs);
    }
    if (*exact_in_bf16) {
      return;
    }
    const Stopwatch watch(seconds);
    if constexpr (kWide) {
      add_to_gram(tile, plan.row_slabs, wide.data(), gram);
    } else {
      add_to_gram(tile, plan.row_slabs, gram);
    }
  };
  const auto use_slab = [&](const decode::EncodedMatrix& slab) {
    if constexpr (!kWide) {
      if (exact_in_bf16.value_or(false)) {
        const Stopwatch watch(seconds);
        if (packed.size() == 0) {
          packed = WorkArray<std::byte>(
              workspace, static_cast<std::int64_t>(gram_bf16_workspace_bytes(p)), "packed weights");
        }
        gram_bf16(slab, plan.row_slabs, 1.0F, gram, p, packed.span());
      }
    }
  };
  reader.pass(change, use_tile, use_slab);
}

/// Route by a Gram in `Real`. The outcome is empty where a weight is not finite.
template <typename Real>
Outcome by_gram(TileReader& reader, const SvdPlan& plan, TileChange change, Workspace& workspace,
                MatrixReport& report) {
  const std::int64_t p = plan.short_side;
  Outcome outcome;
  outcome.method = sizeof(Real) == sizeof(double) ? "gram64+trd64+cpu" : "gram32+trd32+cpu";
  WorkArray<Real> gram(workspace, p * p, "the Gram matrix");
  form_gram(reader, plan, change, plan.library_only, workspace, gram.data(), report.seconds_gram);
  if (!reader.finite()) {
    return outcome;
  }
  if constexpr (sizeof(Real) == sizeof(float)) {
    // The largest weight is known only now; out of the safe range the pass is done again.
    if (const int exponent = gram_scale_exponent(reader.moments().max_abs()); exponent != 0) {
      change.scale_exponent = exponent;
      form_gram(reader, plan, change, plan.library_only, workspace, gram.data(),
                report.seconds_gram);
    }
  }
  const Stopwatch watch(report.seconds_eigen);
  outcome.gram_norm_squared =
      std::ldexp(symmetric_norm_squared(gram.data(), p), -4 * change.scale_exponent);
  outcome.sigma.assign(static_cast<std::size_t>(p), 0.0);
  const std::int64_t left = drop_zero_columns(gram.data(), p);
  if (left == 0) {
    return outcome;
  }
  WorkArray<double> d(workspace, left, "eigenvalues");
  WorkArray<double> e(workspace, left, "tridiagonal form");
  reduce_to_tridiagonal(gram.data(), left, d.data(), e.data(), workspace);
  if (!solve_tridiagonal(d.data(), e.data(), left, plan.library_only, workspace)) {
    outcome.sigma.clear();
    return outcome;
  }
  outcome.negative = d[0] < 0.0;
  for (std::int64_t i = 0; i < left; ++i) {
    outcome.sigma[static_cast<std::size_t>(i)] =
        std::ldexp(std::sqrt(std::max(d[left - 1 - i], 0.0)), -change.scale_exponent);
  }
  return outcome;
}

Outcome by_qr(TileReader& reader, const SvdPlan& plan, const TileChange& change,
              Workspace& workspace, MatrixReport& report) {
  Outcome outcome;
  outcome.method = "qr+bidiag64+cpu";
  outcome.sigma = singular_values_by_qr(reader, plan, change, workspace, report.seconds_gram,
                                        report.seconds_eigen);
  return outcome;
}

/// float64 Gram while its own estimate of the condition allows, QR beyond.
Outcome by_strict(TileReader& reader, const SvdPlan& plan, const TileChange& change,
                  Workspace& workspace, MatrixReport& report) {
  Outcome outcome = by_gram<double>(reader, plan, change, workspace, report);
  if (outcome.sigma.empty() || outcome.sigma.front() == 0.0) {
    return outcome;
  }
  // Values that are exactly zero (dead neurons) were taken out beforehand and are exact.
  const auto smallest =
      std::find_if(outcome.sigma.rbegin(), outcome.sigma.rend(), [](double s) { return s > 0.0; });
  const double ratio = outcome.sigma.front() / *smallest;
  if (!outcome.negative &&
      ratio <= kStrictConditionPerSize * static_cast<double>(plan.short_side)) {
    return outcome;
  }
  const double norm = outcome.gram_norm_squared;
  outcome = by_qr(reader, plan, change, workspace, report);
  outcome.gram_norm_squared = norm;
  return outcome;
}

void keep(Outcome&& outcome, double sum_squares, MatrixReport& report) {
  report.sigma = std::move(outcome.sigma);
  report.method = outcome.method;
  report.gram_norm_squared = outcome.gram_norm_squared;
  double trace = 0.0;
  double norm = 0.0;
  for (auto s = report.sigma.rbegin(); s != report.sigma.rend(); ++s) {
    const double lambda = *s * *s;
    trace += lambda;
    norm += lambda * lambda;
  }
  report.check_trace = std::abs(trace - sum_squares) / sum_squares;
  report.check_gram = std::abs(norm - report.gram_norm_squared) / report.gram_norm_squared;
}

bool alarms(const MatrixReport& report) {
  return report.check_trace > kCheckAlarm || report.check_gram > kCheckAlarm;
}

Outcome by_first_route(TileReader& reader, const SvdPlan& plan, const TileChange& change,
                       Workspace& workspace, MatrixReport& report) {
  switch (plan.route) {
    case SvdRoute::kQr:
      return by_qr(reader, plan, change, workspace, report);
    case SvdRoute::kGram64:
      return by_strict(reader, plan, change, workspace, report);
    default:
      return by_gram<float>(reader, plan, change, workspace, report);
  }
}

}  // namespace

void measure_on_cpu(MatrixInput& input, const SvdPlan& plan, const MeasureOptions& options,
                    Workspace& workspace, MatrixReport& report) {
  TileReader reader(input, plan, workspace);
  Outcome outcome = by_first_route(reader, plan, {}, workspace, report);
  report.method = outcome.method;
  report.moments = reader.moments();
  report.seconds_decode = reader.seconds();
  if (!reader.finite()) {
    report.status = Status::kNotFinite;
    report.reason = std::to_string(report.moments.nonfinite) + " weights are not finite";
    return;
  }
  if (report.moments.max_abs() == 0.0) {
    report.status = Status::kMeasured;
    report.reason = "zero matrix";
    report.sigma.assign(static_cast<std::size_t>(plan.short_side), 0.0);
    report.sign_flip_sigma = options.sign_flip_null ? report.sigma : std::vector<double>{};
    return;
  }
  bool negative = outcome.negative;
  bool converged = !outcome.sigma.empty();
  if (converged) {
    keep(std::move(outcome), report.moments.sum_squares, report);
  }
  const bool doubtful =
      !converged || negative || alarms(report) || condition(report.sigma) > kEscalationCondition;
  if (plan.route == SvdRoute::kGram32 && doubtful) {
    if (plan.may_escalate) {
      outcome = by_strict(reader, plan, {}, workspace, report);
      report.escalated = true;
      report.method = outcome.method;
      converged = !outcome.sigma.empty();
      if (converged) {
        keep(std::move(outcome), report.moments.sum_squares, report);
      }
    } else {
      report.tail_reliable = false;
    }
  }
  report.status = converged ? Status::kMeasured : Status::kNotConverged;
  if (!converged) {
    report.sigma.clear();
    report.reason = "the eigenvalue iteration did not converge";
    return;
  }
  if (options.sign_flip_null) {
    Outcome flipped = by_first_route(reader, plan, {.flip_signs = true}, workspace, report);
    report.sign_flip_sigma = std::move(flipped.sigma);
  }
  report.seconds_decode = reader.seconds();
}

}  // namespace vindex::measure
