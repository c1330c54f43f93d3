#include "verbs.hpp"

#include <vindex/run/decode_tensor.hpp>

#include <fmt/format.h>

#include <memory>
#include <optional>

namespace vindex::apps {

void add_decode(CLI::App& app, Session& session) {
  struct Options {
    std::string model, model_config, tensor, output;
    std::optional<std::int32_t> slice;
  };
  auto options = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand(
      "decode",
      "Write one tensor's decoded weights as little-endian float32\n\n"
      "Example:\n  vindex decode MODEL --tensor model.layers.1.mlp.experts.0.down_proj"
      ".weight -o down.f32");
  verb->add_option("model", options->model, "Model folder or file")->required();
  verb->add_option("--tensor", options->tensor, "Logical name of the tensor")->required();
  verb->add_option("--slice", options->slice, "Only this slice of a stack (expert, head)");
  verb->add_option("-o,--output", options->output, "File to write")->required();
  verb->add_option("--model-config", options->model_config, "config.json of a single .safetensors");
  on_choice(*verb, session, [&session, options] {
    const std::int64_t count = run::decode_tensor(options->model, options->model_config,
                                                  options->tensor, options->slice, options->output);
    say(session, fmt::format("{} values written to {}", count, printable(options->output)));
    return ExitCode::kOk;
  });
}

}  // namespace vindex::apps
