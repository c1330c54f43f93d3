// The command report: results files as a page to look at.
#include "flag_names.hpp"
#include "verbs.hpp"

#include "core/text/size_text.hpp"
#include "report/page/write_page.hpp"

#include <fmt/format.h>

#include <memory>

namespace vindex::apps {

void add_report(CLI::App& app, Session& session) {
  struct Options {
    std::vector<std::string> paths;
    std::string target;
    bool force = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand(
      "report",
      "Write results files as one page for a browser\n\nExamples:\n"
      "  vindex report OUT.h5 -o report.html\n"
      "  vindex report bf16.h5 q4.h5 -o both.html   side by side\n"
      "The page is one file with charts of every metric beside noise; it loads nothing from "
      "elsewhere. Files of compare, experts, cka, activations and routing may stand among the "
      "others.");
  verb->add_option("files", options->paths, "Results files")->required();
  verb->add_option("-o,--output", options->target, "Page to write (-: standard output)")
      ->required();
  add_force(*verb, options->force, "Replace a page that is there (never a results file)");
  on_choice(*verb, session, [&session, options] {
    const report::WrittenPage page =
        report::write_page(options->paths, options->target, options->force);
    if (options->target != "-") {
      say(session, fmt::format("{}: {}", printable(options->target), data_text(page.bytes)));
    }
    return Ending();
  });
}

}  // namespace vindex::apps
