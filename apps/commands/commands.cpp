// The command commands: what the program can do, for programs.
#include "apps/console/terminal.hpp"
#include "apps/options/command.hpp"
#include "apps/reporting/describe_commands.hpp"

#include <memory>

namespace vindex::apps {

void add_commands_command(Command& app, Session& session) {
  auto json = std::make_shared<bool>(false);
  Command& command = app.add_command("commands",
                                     "List the commands, for programs with every option\n\n"
                                     "Examples:\n  vindex commands\n  vindex commands --json");
  command.add_flag("--json", *json, "One JSON document: options with kind, type, choices, default");
  command.group("");  // a question about the program: the list of its help fits one screen
  command.runs(session, [&app, json] {
    print_result(*json ? describe_commands(app) : commands_text(app));
    return Ending();
  });
}

}  // namespace vindex::apps
