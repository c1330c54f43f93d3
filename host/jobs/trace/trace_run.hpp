// Owns a trace from its settings to its dump and its report.
#pragma once

#include "trace_dump.hpp"

#include "core/text_table.hpp"
#include "engine/opening.hpp"
#include "input/bulk_reader.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace vindex::jobs {

struct TraceSettings {
  engine::RunSettings run;  ///< model, output (the dump), back end, budget, restart
  std::string ids;          ///< file of prompts
  DumpChoice dump;
  bool replace = false;  ///< a dump that lies at the output
};

struct TraceResult {
  std::string model, family, output;
  std::int64_t prompts = 0, tokens = 0, longest = 0;
  std::int32_t layers = 0, layers_before = 0;  ///< of these, by earlier runs
  std::int64_t arrays = 0;
  std::uint64_t dump_bytes = 0;  ///< of the arrays
  std::int64_t unrouted = 0;     ///< tokens of a mixture whose logits route nowhere
  std::string backend, device;
  bool rows_in_file = false;  ///< the residual stream did not fit into the budget
  double seconds = 0.0, keeping_seconds = 0.0;
  input::ReadStatistics reading;
  std::string reading_engine;
  bool stopped = false;
};

/// Runs the prompts through the model and writes the dump. The same call goes on where an earlier
/// one was stopped. Errors: those of opening the model, read_transformer(), read_prompts(),
/// plan_dump(), TraceFolder and run_forward().
TraceResult trace(const TraceSettings& settings, const engine::RunHooks& hooks);

/// What was done, in lines of at most `columns` columns but for names.
std::string trace_text(const TraceResult& result, std::size_t columns = kUsualWidth);
/// The same as one document.
std::string trace_json(const TraceResult& result);

}  // namespace vindex::jobs
