// Owns a trace from its settings to what it leaves (a dump, statistics, losses) and its report.
#pragma once

#include "commands/trace/forward/finite_watch.hpp"
#include "commands/trace/output/trace_dump.hpp"
#include "commands/trace/statistics/trace_logits.hpp"
#include "core/text/text_table.hpp"
#include "engine/run/job_runner.hpp"
#include "engine/run/opening.hpp"
#include "input/bulk/read_statistics.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace vindex::commands {

struct TraceSettings {
  engine::RunSettings run;  ///< model, output (the dump), back end, budget, restart
  std::string ids;          ///< file of prompts
  DumpChoice dump;
  bool replace = false;  ///< a dump that lies at the output
  bool losses = false;   ///< of the tokens that came
  /// A model that is judged by this one on the same prompts, and its --model-config; empty: none.
  std::string against, against_config;
  std::string statistics;   ///< results file of statistics; empty: none
  bool covariance = false;  ///< effective ranks in it
};

struct TraceResult {
  std::string model, family, output;
  std::int64_t prompts = 0, tokens = 0, longest = 0;
  std::int32_t layers = 0, layers_before = 0;  ///< of these, by earlier runs
  std::int64_t vocabulary = 0;
  std::string against, statistics;         ///< as asked for
  std::optional<LogitsFindings> findings;  ///< where losses were asked for
  std::int64_t arrays = 0;
  std::uint64_t dump_bytes = 0;              ///< of the arrays
  std::int64_t unrouted = 0;                 ///< tokens of a mixture whose logits route nowhere
  NotFinite not_finite, not_finite_against;  ///< of the model, and of the one that it judges
  std::string backend, device;
  bool rows_in_file = false;  ///< the residual stream did not fit into the budget
  double seconds = 0.0, keeping_seconds = 0.0;
  input::ReadStatistics reading;
  std::string reading_engine;
  bool stopped = false;
};

/// Runs the prompts through the model, writes dump and statistics, and takes losses, as far as they
/// are asked for. The same call goes on where an earlier one was stopped, if it writes a dump; else
/// it begins anew. Errors: those of opening the models, read_transformer(), read_prompts(),
/// plan_dump(), TraceFolder, TraceStatistics, run_forward() and finish_trace(); UsageError E-USAGE
/// where nothing is asked for; ConfigurationError (78) E-TRACE-VOCABULARY.
TraceResult trace(const TraceSettings& settings, const engine::RunHooks& hooks);

/// What was done, in lines of at most `columns` columns but for names.
std::string trace_text(const TraceResult& result, std::size_t columns = kUsualWidth);
/// The same as one document.
std::string trace_json(const TraceResult& result);

}  // namespace vindex::commands
