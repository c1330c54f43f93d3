// Owns the measurement of one matrix on the CPU: the loop that computes a step, has it judged, and
// computes the step that the judgement asks for.
#include "cpu_spectrum.hpp"

#include "backend/backend.hpp"
#include "cpu/route/gram_route.hpp"
#include "cpu/strict/qr_route.hpp"
#include "cpu/tail/cpu_tail.hpp"
#include "cpu/tiles/cpu_tiles.hpp"
#include "cpu/top/cpu_fast.hpp"
#include "cpu/top/cpu_vectors.hpp"
#include "statistics/judgement/first_step.hpp"
#include "statistics/judgement/further_results.hpp"
#include "statistics/judgement/judgement.hpp"
#include "statistics/judgement/spectrum_bounds.hpp"
#include "statistics/judgement/step_result.hpp"
#include "statistics/null/sign_flip_null.hpp"

#include <optional>
#include <utility>

namespace vindex::cpu {
namespace {

/// What the route of a plan begins with.
statistics::Step first_step(const SvdPlan& plan) {
  switch (plan.route) {
    case SvdRoute::kGram32:
      return statistics::Step::kGram32;
    case SvdRoute::kQr:
      return statistics::Step::kQr;
    case SvdRoute::kChebyshev:
      return plan.short_side > statistics::kFullSpectrumSize ? statistics::Step::kTop
                                                             : statistics::Step::kGram64;
    case SvdRoute::kGram64:
      break;
  }
  return statistics::Step::kGram64;
}

/// One matrix on its way into a report.
class Measurement {
 public:
  Measurement(TileReader& reader, const SvdPlan& plan, const MeasureOptions& options,
              Workspace& workspace, MatrixReport& report)
      : reader_(reader), plan_(plan), options_(options), workspace_(workspace), report_(report) {}

  /// Computes what `judged` asks for until it asks for no more; the last finding.
  template <typename Judged>
  statistics::StepResult take_steps(statistics::StepContext& context, const TileChange& change,
                                    const Judged& judged) {
    statistics::StepResult found;
    statistics::NextStep next_step = {.next = context.step};
    while (next_step.next) {
      context = statistics::next_step_context(context, *next_step.next);
      found = compute(context, std::move(found), next_step.lost, change);
      found.moments = reader_.moments();
      next_step = judged(found);
    }
    reduced_ = {};
    return found;
  }

  void run_sign_flips() {
    if (options_.sign_flip_draws == 0) {
      return;
    }
    const statistics::SignFlipCollector collector(plan_.short_side, plan_.long_side, options_.mode);
    if (!statistics::begin_draws(options_, collector, report_)) {
      return;
    }
    for (std::int32_t draw = 0; draw < options_.sign_flip_draws; ++draw) {
      TileChange change;
      change.sign_flip_draw = static_cast<std::uint64_t>(draw);
      statistics::StepContext context =
          statistics::begin_draw(first_step(plan_), plan_.short_side, plan_.long_side, options_);
      statistics::StepResult found = take_steps(
          context, change,
          [&](const statistics::StepResult& one) { return statistics::judge_draw(one, context); });
      collector.add(std::move(found.sigma), report_.moments.sum_squares, *report_.sign_flip);
    }
  }

 private:
  statistics::StepResult compute(const statistics::StepContext& context,
                                 statistics::StepResult before, std::int64_t lost,
                                 const TileChange& change) {
    ReducedGram reduced = std::exchange(reduced_, {});
    switch (context.step) {
      case statistics::Step::kTop:
        return by_chebyshev(reader_, plan_, change, !change.sign_flip_draw, workspace_, report_);
      case statistics::Step::kGram32:
        reduced = {};
        return solve_by_gram32(reader_, plan_, change, workspace_, report_, kept(change),
                               options_.mode == SpectrumMode::kFast);
      case statistics::Step::kGram64:
        reduced = {};
        return by_gram64(reader_, plan_, change, workspace_, report_, kept(change));
      case statistics::Step::kTail:
        return reduced ? by_tail(reader_, plan_, reduced, std::move(before), lost, context,
                                 workspace_, report_)
                       : before;
      case statistics::Step::kQr:
        break;
    }
    reduced = {};
    return by_qr(reader_, plan_, change, std::move(before), lost, workspace_, report_);
  }

  /// Draws and `fast` have no kTail.
  ReducedGram* kept(const TileChange& change) {
    return change.sign_flip_draw || options_.mode == SpectrumMode::kFast ? nullptr : &reduced_;
  }

  TileReader& reader_;
  const SvdPlan& plan_;
  const MeasureOptions& options_;
  Workspace& workspace_;
  MatrixReport& report_;
  ReducedGram reduced_;  ///< of the last Gram
};

}  // namespace

void measure_on_cpu(MatrixInput& input, const SvdPlan& plan, const MeasureOptions& options,
                    Workspace& workspace, MatrixReport& report) {
  TileReader reader(input, plan, workspace);
  Measurement measurement(reader, plan, options, workspace, report);
  statistics::StepContext context =
      statistics::begin_measurement(first_step(plan), plan.short_side, plan.long_side, options,
                                    {.sum_terms = gram64_terms(plan),
                                     .max_tail_values = max_tail_values(plan),
                                     .tail_leaves_zeros = true});
  measurement.take_steps(context, {}, [&](const statistics::StepResult& found) {
    return statistics::judge(found, context, report);
  });
  measurement.run_sign_flips();
  if (statistics::begin_vectors(options, report)) {
    report.vectors =
        singular_vectors(reader, plan, options.vectors, input.transposed(), workspace, report);
  }
  report.seconds_decode = reader.seconds();
}

}  // namespace vindex::cpu
