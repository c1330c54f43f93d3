#include "cpu_spectrum.hpp"

#include "cpu_routes.hpp"
#include "cpu_tiles.hpp"
#include "seam.hpp"
#include "top/cpu_fast.hpp"
#include "top/cpu_vectors.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

namespace vindex::cpu {
namespace {

/// One matrix on its way into a report.
class Measurement {
 public:
  Measurement(TileReader& reader, bool transposed, const SvdPlan& plan,
              const MeasureOptions& options, Workspace& workspace, MatrixReport& report)
      : reader_(reader),
        transposed_(transposed),
        plan_(plan),
        options_(options),
        workspace_(workspace),
        report_(report) {}

  void run() {
    if (plan_.route == SvdRoute::kChebyshev) {
      run_fast();
    } else {
      run_full();
    }
    if (report_.status == Status::kMeasured && options_.sign_flip_draws > 0) {
      run_sign_flips();
    }
    if (report_.status == Status::kMeasured && options_.vectors > 0) {
      report_.vectors = SingularVectors{};
      if (report_.moments.max_abs() > 0.0) {
        report_.vectors =
            singular_vectors(reader_, plan_, options_.vectors, transposed_, workspace_, report_);
      }
    }
    report_.seconds_decode = reader_.seconds();
  }

 private:
  void run_full() {
    if (plan_.strict_at_once) {
      keep(by_strict(reader_, plan_, {}, workspace_, report_));
      return;
    }
    const Outcome outcome = by_first_route({});
    if (!keep(outcome)) {
      return;
    }
    const bool doubtful = report_.status != Status::kMeasured || outcome.negative ||
                          checks_alarm(report_) ||
                          condition_of(report_.sigma) > kEscalationCondition;
    if (plan_.route != SvdRoute::kGram32 || !doubtful) {
      return;
    }
    if (plan_.may_escalate) {
      escalate();
    } else {
      report_.tail_reliable = false;
    }
  }

  void run_fast() {
    if (plan_.short_side <= kFullSpectrumSize) {
      keep(by_gram64(reader_, plan_, {}, workspace_, report_));
      keep_full_bounds();
      return;
    }
    FastOutcome fast = by_chebyshev(reader_, plan_, {}, true, workspace_, report_);
    if (!keep(fast.outcome)) {
      return;
    }
    if (is_tight(fast.bounds)) {
      report_.bounds = std::move(fast.bounds);
    } else if (options_.escalate) {
      report_.escalated = true;
      keep(by_gram64(reader_, plan_, {}, workspace_, report_));
      keep_full_bounds();
    } else {
      report_.bounds = std::move(fast.bounds);
      report_.reason = "bounds not proved to 1e-5";
    }
  }

  void escalate() {
    report_.escalated = true;
    keep(by_strict(reader_, plan_, {}, workspace_, report_));
  }

  /// Outcome to report. False where there is nothing more to do: not finite, or zero.
  bool keep(const Outcome& outcome) {
    report_.method = outcome.method;
    report_.moments = reader_.moments();
    report_.gram_norm_squared = outcome.gram_norm_squared;
    if (!reader_.finite()) {
      report_.status = Status::kNotFinite;
      report_.reason = std::to_string(report_.moments.nonfinite) + " weights are not finite";
      report_.gram_norm_squared = std::numeric_limits<double>::quiet_NaN();
      return false;
    }
    if (report_.moments.max_abs() == 0.0) {
      report_.status = Status::kMeasured;
      report_.reason = "zero matrix";
      report_.sigma.assign(static_cast<std::size_t>(plan_.route == SvdRoute::kChebyshev
                                                        ? std::min(kFastValues, plan_.short_side)
                                                        : plan_.short_side),
                           0.0);
      return false;
    }
    report_.sigma = outcome.sigma;
    if (report_.sigma.empty()) {
      report_.status = Status::kNotConverged;
      report_.reason = "the eigenvalue iteration did not converge";
      return true;
    }
    report_.status = Status::kMeasured;
    report_.reason.clear();
    if (static_cast<std::int64_t>(report_.sigma.size()) == plan_.short_side) {
      set_checks(report_);
    }
    return true;
  }

  void keep_full_bounds() {
    if (report_.status != Status::kMeasured || report_.sigma.front() == 0.0) {
      return;
    }
    const double sum_squares = report_.moments.sum_squares;
    report_.bounds = bounds_of_spectrum(
        report_.sigma, full_error_bound(plan_, sum_squares, report_.sigma.front()), sum_squares);
    report_.sigma.resize(static_cast<std::size_t>(std::min(kFastValues, plan_.short_side)));
  }

  /// Draws are not escalated: nothing that is taken from them depends on their smallest values.
  void run_sign_flips() {
    const SignFlipCollector collector(plan_.short_side, plan_.long_side, options_.mode);
    report_.sign_flip.emplace();
    for (std::int32_t draw = 0; draw < options_.sign_flip_draws; ++draw) {
      TileChange change;
      change.sign_flip_draw = static_cast<std::uint64_t>(draw);
      collector.add(sign_flipped_values(change), report_.moments.sum_squares, *report_.sign_flip);
    }
  }

  std::vector<double> sign_flipped_values(const TileChange& change) {
    if (report_.moments.max_abs() == 0.0) {
      return report_.sigma;
    }
    if (plan_.route == SvdRoute::kChebyshev && plan_.short_side > kFullSpectrumSize) {
      return by_chebyshev(reader_, plan_, change, false, workspace_, report_).outcome.sigma;
    }
    return by_first_route(change).sigma;
  }

  Outcome by_first_route(const TileChange& change) {
    switch (plan_.route) {
      case SvdRoute::kQr:
        return by_qr(reader_, plan_, change, workspace_, report_);
      case SvdRoute::kGram32:
        return by_gram32(reader_, plan_, change, workspace_, report_);
      case SvdRoute::kChebyshev:
        return by_gram64(reader_, plan_, change, workspace_, report_);
      case SvdRoute::kGram64:
        break;
    }
    return by_strict(reader_, plan_, change, workspace_, report_);
  }

  TileReader& reader_;
  bool transposed_;
  const SvdPlan& plan_;
  const MeasureOptions& options_;
  Workspace& workspace_;
  MatrixReport& report_;
};

}  // namespace

void measure_on_cpu(MatrixInput& input, const SvdPlan& plan, const MeasureOptions& options,
                    Workspace& workspace, MatrixReport& report) {
  TileReader reader(input, plan, workspace);
  Measurement(reader, input.transposed(), plan, options, workspace, report).run();
}

}  // namespace vindex::cpu
