// The steps that statistics/judgement/judgement.hpp asks for, in turn, for a batch and for draws of
// its signs.
#include "batch_solver.hpp"

#include "statistics/judgement/first_step.hpp"
#include "statistics/judgement/further_results.hpp"
#include "statistics/judgement/judgement.hpp"
#include "statistics/null/sign_flip_null.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace vindex::kernels {

using statistics::Step;
using statistics::StepContext;
using statistics::StepResult;

/// What the route for this mode begins with.
Step BatchSolver::first_step() const {
  if (task_.iterates()) {
    return Step::kTop;
  }
  if (task_.routes.first.is_float32()) {
    return Step::kGram32;
  }
  return task_.routes.first.solver == SolverChoice::kQr ? Step::kQr : Step::kGram64;
}

/// `which` in parts, each of which the device keeps, as a tail and stages in float64 need it, until
/// the next one comes.
std::vector<BatchSolver::Indices> BatchSolver::parts_of(const StepContext& situation,
                                                        const Indices& which) const {
  auto size = static_cast<std::int64_t>(which.size());
  if (situation.step == Step::kGram32 && (situation.max_tail_values > 0 || task_.stages().any())) {
    size = task_.eigen_piece(size);
  } else if (situation.max_tail_values > 0 && situation.step == Step::kGram64) {
    size = std::min(size, sizes_.wide);
  }
  std::vector<Indices> parts;
  for (auto first = which.begin(); first != which.end(); first += std::ssize(parts.back())) {
    parts.emplace_back(first, first + std::min<std::int64_t>(size, which.end() - first));
  }
  return parts;
}

/// One step for all of `which`, their tails, then the next for those of which `judged` wants more,
/// to the end. What follows a step, or a tail after it, is the same step for all of them
/// (judgement.hpp).
void BatchSolver::take_steps(StepContext situation, Indices which, SignDraw flip,
                             const Judged& judged) {
  for (bool is_first = true; !which.empty(); is_first = false) {
    Indices more;
    Step next = situation.step;
    const auto go_on = [&](std::size_t index, Step step) {
      expects(more.empty() || next == step, "one step after a step");
      next = step;
      more.push_back(index);
    };
    const std::vector<Indices> parts = parts_of(situation, which);
    for (std::size_t part = 0; part < parts.size(); ++part) {
      throw_if_stopped(options_.stop);
      const Indices& own = parts[part];
      ahead_ = part + 1 < parts.size() ? parts[part + 1].back() + 1 : 0;
      std::vector<StepResult> found = compute(situation.step, own, flip, is_first);
      settle_stages(situation, own, flip.has_value(), found);
      std::vector<LostTail> tails;
      for (std::size_t i = 0; i < own.size(); ++i) {
        const statistics::NextStep verdict = judged(own[i], found[i], situation);
        if (verdict.next == Step::kTail) {
          tails.push_back({.index = own[i],
                           .position = static_cast<std::int64_t>(i),
                           .lost = verdict.lost,
                           .before = std::move(found[i])});
        } else if (verdict.next) {
          go_on(own[i], *verdict.next);
        }
      }
      if (tails.empty()) {
        continue;
      }
      const StepContext after = statistics::next_step_context(situation, Step::kTail);
      found = run_tail(after, own.size(), tails);
      for (std::size_t i = 0; i < tails.size(); ++i) {
        const statistics::NextStep verdict = judged(tails[i].index, found[i], after);
        if (verdict.next) {
          go_on(tails[i].index, *verdict.next);
        }
      }
    }
    ahead_ = 0;
    std::sort(more.begin(), more.end());
    situation = statistics::next_step_context(situation, next);
    which = std::move(more);
  }
}

std::vector<StepResult> BatchSolver::compute(Step step, const Indices& which, SignDraw flip,
                                             bool is_first) {
  switch (step) {
    case Step::kTop:
      return run_top(which, flip);
    case Step::kGram32:
      return run_route(task_.routes.first, which, flip);
    case Step::kGram64:
      return run_route(task_.routes.strict, which, flip);
    case Step::kTail:
      expects(false, "a tail belongs to the step before it");
      break;
    case Step::kQr:
      break;
  }
  return is_first ? run_route(task_.routes.first, which, flip) : run_qr_after(which, flip);
}

void BatchSolver::run_sign_flips(const Indices& all) {
  if (options_.sign_flip_draws == 0) {
    return;
  }
  const statistics::SignFlipCollector collector(task_.rows, task_.cols, options_.mode);
  Indices which;
  for (const std::size_t index : all) {
    if (statistics::begin_draws(options_, collector, out_[index])) {
      which.push_back(index);
    }
  }
  for (std::int32_t draw = 0; draw < options_.sign_flip_draws; ++draw) {
    take_steps(statistics::begin_draw(first_step(), task_.rows, task_.cols, options_), which,
               DrawNumber{static_cast<std::uint64_t>(draw)},
               [&](std::size_t index, StepResult& found, const StepContext& situation) {
                 const statistics::NextStep verdict = statistics::judge_draw(found, situation);
                 if (!verdict.next) {
                   MatrixReport& report = out_[index];
                   collector.add(std::move(found.sigma), report.moments.sum_squares,
                                 *report.sign_flip);
                 }
                 return verdict;
               });
  }
}

}  // namespace vindex::kernels
