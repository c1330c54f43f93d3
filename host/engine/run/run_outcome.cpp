// Owns counting rows into an outcome, and the lines of outcomes and of failures after a run.
#include "run_outcome.hpp"

#include "core/text/text_table.hpp"

#include <fmt/format.h>

namespace vindex::engine {

void count_row(RunOutcome& outcome, const results::ResultRow& row, const RowFacts& facts) {
  constexpr std::size_t kMaxTroubles = 20;
  ++outcome.measured_now;
  outcome.escalated += row.escalated ? 1 : 0;
  if (!row.error_class.empty() &&
      (outcome.first_failure < 0 || row.index < outcome.first_failure)) {
    outcome.first_failure = row.index;
    outcome.exit_code = static_cast<ExitCode>(std::stoi(row.error_class));
    outcome.first_failure_reason = fmt::format("{}: {}", facts.name, printable(row.reason));
  }
  if (row.status == MatrixStatus::kMeasured) {
    return;
  }
  const bool not_finite = row.status == MatrixStatus::kNotFinite;
  const bool unsupported = row.status == MatrixStatus::kUnsupported;
  outcome.not_finite += not_finite ? 1 : 0;
  outcome.unsupported += unsupported ? 1 : 0;
  outcome.failed += not_finite || unsupported ? 0 : 1;
  if (outcome.troubles.size() < kMaxTroubles) {
    outcome.troubles.push_back(fmt::format("{}: {}", facts.name, printable(row.reason)));
  }
}

namespace {

/// Whether a run took long because the storage did: what a shorter one read is nobody's question.
bool was_reading(const RunOutcome& outcome) {
  constexpr double kFewestSeconds = 5.0;
  constexpr double kShare = 0.7;
  return outcome.seconds >= kFewestSeconds &&
         outcome.reading.busy_seconds >= kShare * outcome.seconds;
}

}  // namespace

std::string outcome_text(const RunOutcome& outcome, std::size_t columns, const char* noun,
                         bool is_verbose) {
  std::string out =
      fmt::format("{} of {} {}", outcome.done_before + outcome.measured_now, outcome.total, noun);
  if (outcome.derived_total > 0) {
    out += fmt::format(" ({} of them derived)", outcome.derived_total);
  }
  out += fmt::format(" in {:.1f} s", outcome.seconds);
  if (outcome.done_before > 0) {
    out += fmt::format(", {} of them from an earlier run", outcome.done_before);
  }
  const auto count = [&](std::int64_t value, const char* what) {
    if (value > 0) {
      out += fmt::format(", {} {}", value, what);
    }
  };
  count(outcome.not_finite, "not finite");
  count(outcome.unsupported, "unsupported");
  count(outcome.failed, "failed");
  out = wrapped_text(out, columns, 2) + "\n";
  const auto sentence = [&](const std::string& text) {
    out += wrapped_text(text, columns, 2) + "\n";
  };
  if (outcome.escalated > 0) {
    sentence(fmt::format(
        "{} of them measured again by a stricter route, because the first could not decide "
        "their small values: nothing is lost, their results are at least as exact as the others",
        outcome.escalated));
  }
  if (is_verbose && outcome.measured_now > 0) {
    sentence(fmt::format("start {:.2f} s, work {:.2f} s, file {:.2f} s", outcome.begun_seconds,
                         outcome.last_row_seconds - outcome.begun_seconds,
                         outcome.seconds - outcome.last_row_seconds));
  }
  if (outcome.reading.bytes() > 0 && (is_verbose || was_reading(outcome))) {
    sentence(input::reading_text(outcome.reading, outcome.reading_engine));
  }
  for (const std::string& line : outcome.troubles) {
    out += "  " + line + "\n";
  }
  const std::int64_t named = static_cast<std::int64_t>(outcome.troubles.size());
  const std::int64_t all = outcome.not_finite + outcome.unsupported + outcome.failed;
  if (all > named) {
    out += fmt::format("  ({} more; status and reason of the file's table have them all)\n",
                       all - named);
  }
  return out;
}

std::string failure_text(const RunOutcome& outcome, const char* noun) {
  expects(!outcome.first_failure_reason.empty(), "a failure without a reason");
  const std::int64_t more = outcome.failed + outcome.unsupported - 1;
  return outcome.first_failure_reason +
         (more > 0 ? fmt::format("; {} more of {} {} have no measurement either", more,
                                 outcome.total, noun)
                   : std::string());
}

}  // namespace vindex::engine
