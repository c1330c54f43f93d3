// The command merge: parts of many workers to one results file.
#include "results/runs/merge.hpp"

#include "apps/console/terminal.hpp"
#include "apps/options/command.hpp"
#include "results/runs/run_status.hpp"
#include "results/schema/schema.hpp"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

namespace vindex::apps {

void add_merge(Command& app, Session& session) {
  struct Options {
    std::vector<std::string> parts;
    std::string output;
    bool partial = false;
  };
  auto options = std::make_shared<Options>();
  Command& command = app.add_command("merge",
                                     "Join the parts of many workers into one results file\n\n"
                                     "Example:\n  vindex merge OUT.h5.parts -o OUT.h5");
  command.add(ValueKind::kParts, "parts", options->parts, "Folders of parts, or part files")
      ->required();
  command.add_output("-o,--output", options->output, "{inputs}.h5", "Results file to write")
      ->required();
  command.add_flag("--partial", options->partial,
                   "Merge what is there though parts are missing; the file's status says so");
  command.runs(session, [&session, options] {
    const results::MergeOutcome merged =
        results::merge_parts(options->parts, options->output, options->partial);
    if (merged.same_twice > 0) {
      say(session, fmt::format("{} rows were in two parts with the same bits", merged.same_twice));
    }
    if (merged.passed_over > 0) {
      say(session, fmt::format("{} rows were measured twice: those of the parts that records name "
                               "are taken",
                               merged.passed_over));
    }
    const results::RunStatus status = results::read_status(options->output);
    say(session,
        fmt::format("{}: {} of {} {} ({})", printable(options->output), status.done,
                    status.matrices_total, results::row_noun(status.schema), status.state));
    return Ending();
  });
}

}  // namespace vindex::apps
