// Owns the texts of a trace that has ended.
#include "trace_run.hpp"

#include "commands/trace/statistics/loss_report.hpp"
#include "core/json/json_document.hpp"
#include "core/text/size_text.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

namespace vindex::commands {

std::string trace_text(const TraceResult& result, std::size_t columns) {
  std::string out =
      fmt::format("{} token{} in {} prompt{} through {} layers of {} in {:.1f} s", result.tokens,
                  result.tokens == 1 ? "" : "s", result.prompts, result.prompts == 1 ? "" : "s",
                  result.layers, result.family, result.seconds);
  if (result.layers_before > 0) {
    out += fmt::format(", {} layers by an earlier run", result.layers_before);
  }
  out = wrapped_text(out, columns, 2) + "\n";
  if (result.reading.bytes() > 0) {
    out += wrapped_text("weights: " + input::reading_text(result.reading, result.reading_engine),
                        columns, 2) +
           "\n";
  }
  if (!result.output.empty()) {
    out += fmt::format("dump: {} ({} arrays, {})\n", printable(result.output), result.arrays,
                       data_text(result.dump_bytes));
  }
  if (!result.statistics.empty()) {
    out +=
        fmt::format("statistics: {} (`vindex show` prints them)\n", printable(result.statistics));
  }
  out += wrapped_text(fmt::format("back end: {} ({})", result.backend, result.device), columns, 2) +
         "\n";
  if (result.findings) {
    out += loss_text(*result.findings, result.vocabulary, columns);
  }
  return out;
}

namespace {

Json not_finite_json(const NotFinite& found) {
  if (!found.any()) {
    return {};
  }
  return {{"first_layer", found.first_layer},
          {"activation_tokens", found.activation_tokens},
          {"logit_tokens", found.logit_tokens}};
}

}  // namespace

std::string trace_json(const TraceResult& result) {
  Json out = {{"schema", "vindex-trace/1"},
              {"model", printable(result.model)},
              {"family", result.family},
              {"dump", Json::given(printable(result.output))},
              {"statistics", Json::given(printable(result.statistics))},
              {"against_model", Json::given(printable(result.against))},
              {"prompts", result.prompts},
              {"tokens", result.tokens},
              {"longest_prompt", result.longest},
              {"layers", result.layers},
              {"layers_of_earlier_runs", result.layers_before},
              {"arrays", result.arrays},
              {"dump_bytes", result.dump_bytes},
              {"unrouted_tokens", result.unrouted},
              {"not_finite", not_finite_json(result.not_finite)},
              {"not_finite_against", not_finite_json(result.not_finite_against)},
              {"backend", result.backend},
              {"device", result.device},
              {"read_bytes", result.reading.bytes()},
              {"states_in_file", result.rows_in_file},
              {"keeping_seconds", result.keeping_seconds},
              {"seconds", result.seconds}};
  if (result.findings) {
    add_losses(*result.findings, result.vocabulary, out);
  }
  return out.dump(2) + "\n";
}

}  // namespace vindex::commands
