// The command report: results files as a page to look at.
#include "apps/console/terminal.hpp"
#include "apps/options/command.hpp"
#include "apps/options/flag_names.hpp"
#include "core/text/size_text.hpp"
#include "report/page/write_page.hpp"

#include <fmt/format.h>

#include <memory>

namespace vindex::apps {

void add_report(Command& app, Session& session) {
  struct Options {
    std::vector<std::string> paths;
    std::string target;
    bool force = false;
  };
  auto options = std::make_shared<Options>();
  Command& command = app.add_command(
      "report",
      "Write results files as one page for a browser\n\nExamples:\n"
      "  vindex report OUT.h5 -o report.html\n"
      "  vindex report bf16.h5 q4.h5 -o both.html   side by side\n"
      "The page is one file with charts of every metric beside noise; it loads nothing from "
      "elsewhere. Files of compare, experts, cka, activations and routing may stand among the "
      "others.");
  command.add_results("files", options->paths, "Results files")->required();
  command
      .add_output("-o,--output", options->target, "report.html",
                  "Page to write (-: standard output)")
      ->required();
  add_force(command, options->force, "Replace a page that is there (never a results file)");
  command.runs(session, [&session, options] {
    const report::WrittenPage page =
        report::write_page(options->paths, options->target, options->force);
    if (options->target != "-") {
      say(session, fmt::format("{}: {}", printable(options->target), data_text(page.bytes)));
    }
    return Ending();
  });
}

}  // namespace vindex::apps
