// The command inspect: what a model is made of.
#include "model/inspect/inspect.hpp"

#include "apps/console/terminal.hpp"
#include "apps/options/command.hpp"
#include "apps/options/flag_names.hpp"

#include <memory>
#include <unistd.h>

namespace vindex::apps {

void add_inspect(Command& app, Session& session) {
  struct Options {
    model::InspectSettings settings;
    std::string reshape = "none";
  };
  auto options = std::make_shared<Options>();
  Command& command =
      app.add_command("inspect",
                      "Show what a model is made of; reads headers only\n\n"
                      "Examples:\n  vindex inspect MODEL\n  vindex inspect MODEL --tensors --json");
  command.add_input("model", options->settings.model, "Model folder or file")->required();
  command.add_flag("--tensors", options->settings.tensor_list, "List every tensor");
  command.add_flag("--json", options->settings.json, "One JSON document");
  command.add_flag("--verify", options->settings.verify,
                   "Read the files whole and compare their SHA-256 with the Hub's");
  add_reshape(command, options->reshape);
  command.add_flag("--lora", options->settings.lora,
                   "The LoRA pairs of an adapter; MODEL may be a GGUF one");
  add_model_config(command, options->settings.model_config);
  command.runs(session, [&session, options] {
    options->settings.reshape_out = options->reshape == "out";
    model::InspectWidths widths;
    widths.tables = text_width(STDOUT_FILENO);
    if (::isatty(STDOUT_FILENO) == 1) {
      widths.list = widths.tables;
    }
    print_result(model::inspect_model(options->settings, widths));
    if (options->settings.verify) {
      say(session, "the SHA-256 of every file of weights is the published one");
    }
    return Ending();
  });
}

}  // namespace vindex::apps
