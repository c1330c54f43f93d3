// The command synth: models with known spectra.
#include "apps/console/terminal.hpp"
#include "apps/options/command.hpp"
#include "apps/options/flag_names.hpp"
#include "synth/make_model.hpp"

#include <fmt/format.h>

#include <memory>

namespace vindex::apps {

void add_synth(Command& app, Session& session) {
  struct Options {
    std::string spec, folder;
    std::uint64_t seed = 1;
  };
  auto options = std::make_shared<Options>();
  std::string about =
      "Write a synthetic model with known spectra\n\nExamples:\n"
      "  vindex synth kimi-k2-mini -o mini\n"
      "  vindex synth layer:384x7168x2048:fp8 -o layer\n\nSpecs:\n";
  for (const std::string& spec : synth::known_specs()) {
    const std::size_t kinds = spec.find("[:");
    about += "  " + spec.substr(0, kinds) + "\n" +
             (kinds == std::string::npos ? "" : "    " + spec.substr(kinds) + "\n");
  }
  Command& command = app.add_command("synth", about);
  command.add_value("spec", options->spec, "What to make")->required();
  command.add_output("-o,--output", options->folder, "model", "Folder to create")->required();
  command.add_value("--seed", options->seed, "Same spec and seed give the same bytes")
      ->capture_default_str();
  command.runs(session, [&session, options] {
    synth::make_model(options->spec, options->seed, options->folder);
    say(session, fmt::format("{} written to {}; truth.json holds what was planted", options->spec,
                             printable(options->folder)));
    return Ending();
  });
}

}  // namespace vindex::apps
