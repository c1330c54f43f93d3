// The command decode: the weights of one tensor as float32.
#include "apps/console/terminal.hpp"
#include "apps/options/command.hpp"
#include "apps/options/flag_names.hpp"
#include "commands/decode/decode_tensor.hpp"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <unistd.h>

namespace vindex::apps {

void add_decode(Command& app, Session& session) {
  struct Options {
    std::string model, model_config, tensor, output;
    std::optional<std::int32_t> slice;
    bool force = false;
  };
  auto options = std::make_shared<Options>();
  Command& command = app.add_command(
      "decode",
      "Write one tensor's decoded weights, little-endian float32\n\n"
      "Examples:\n  vindex decode MODEL --tensor model.layers.1.mlp.down_proj.weight -o down.f32\n"
      "  vindex decode MODEL --tensor lm_head.weight -o - | sha256sum");
  command.add_input("model", options->model, "Model folder or file")->required();
  command.add_value("--tensor", options->tensor, "Logical name of the tensor")->required();
  command.add_value("--slice", options->slice, "Only this slice of a stack (expert, head)");
  command
      .add_output("-o,--output", options->output, "decoded.f32",
                  "File to write (-: standard output)")
      ->required();
  add_force(command, options->force, "Replace a file that is there");
  add_model_config(command, options->model_config);
  command.runs(session, [&session, options] {
    const bool stream = options->output == "-";
    if (stream && ::isatty(STDOUT_FILENO) == 1) {
      throw UsageError("E-STDOUT-TERMINAL",
                       "standard output is a terminal, and the weights are binary; send it to a "
                       "file or a pipe");
    }
    const commands::DecodeOutcome outcome =
        commands::decode_tensor(options->model, options->model_config, options->tensor,
                                options->slice, options->output, options->force);
    say_warnings(session, outcome.warnings);
    say(session, fmt::format("{} values written to {}", outcome.values,
                             stream ? "standard output" : printable(options->output)));
    return Ending();
  });
}

}  // namespace vindex::apps
