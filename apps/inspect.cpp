// The command inspect: what a model is made of.
#include "terminal.hpp"
#include "verbs.hpp"

#include <vindex/model/inspect.hpp>
#include <vindex/model/model_index.hpp>
#include <vindex/shard/model_files.hpp>

#include <memory>
#include <unistd.h>

namespace vindex::apps {

void add_inspect(CLI::App& app, Session& session) {
  struct Options {
    std::string model, model_config, reshape = "none";
    bool tensors = false, json = false, lora = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand(
      "inspect",
      "Show what a model is made of; reads headers only\n\n"
      "Examples:\n  vindex inspect MODEL\n  vindex inspect MODEL --tensors --json");
  verb->add_option("model", options->model, "Model folder or file")->required();
  verb->add_flag("--tensors", options->tensors, "List every tensor");
  verb->add_flag("--json", options->json, "One JSON document");
  add_reshape(*verb, options->reshape);
  verb->add_flag("--lora", options->lora, "The LoRA pairs of an adapter; MODEL may be a GGUF one");
  verb->add_option("--model-config", options->model_config, "config.json of a single .safetensors");
  on_choice(*verb, session, [options] {
    // Static, so that nothing is given back: the process ends without destructors (main.cpp), and
    // freeing a million names one by one takes as long as reading them.
    static const shard::ModelFiles files = shard::open_model(
        options->model, {.model_config = options->model_config, .adapter = options->lora});
    static const model::ModelIndex index = model::index_model(
        files, {.reshape_out = options->reshape == "out", .lora = options->lora});
    model::InspectWidths widths;
    widths.tables = text_width(STDOUT_FILENO);
    if (::isatty(STDOUT_FILENO) == 1) {
      widths.list = widths.tables;
    }
    print_result(options->json ? model::inspect_json(files, index, options->tensors) + "\n"
                               : model::inspect_text(files, index, options->tensors, widths));
    return Ending();
  });
}

}  // namespace vindex::apps
