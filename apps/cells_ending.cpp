// Owns the summary and the reason that such a verb prints at its end.
#include "cells_ending.hpp"

#include "terminal.hpp"

#include <vindex/engine/job_runner.hpp>
#include <vindex/results/shown_cells.hpp>

#include <fmt/format.h>

#include <unistd.h>

namespace vindex::apps {

Ending end_of_cells(const EndedRun& run, const engine::RunOutcome& outcome,
                    const Session& session) {
  const char* const noun = results::row_noun(run.schema);
  if (outcome.stopped) {
    return ending_of(run.output, outcome, noun);
  }
  if (outcome.not_finite > 0) {
    say(session, fmt::format("warning W-NOT-FINITE: {} of {} {} hold numbers that are not finite; "
                             "their rows say so",
                             outcome.not_finite, outcome.total, noun));
  }
  if (run.worker.count == 1 && run.json) {
    print_result(results::cells_json(results::read_shown_cells(run.output)));
  } else if (run.worker.count == 1 && !session.quiet) {
    const std::size_t width = text_width(STDOUT_FILENO);
    print_result(results::cells_text(results::read_shown_cells(run.output), width) + "\n" +
                 engine::outcome_text(outcome, width, noun));
    print_result(fmt::format("results: {}\n", printable(run.output)));
  }
  return ending_of(run.output, outcome, noun);
}

}  // namespace vindex::apps
