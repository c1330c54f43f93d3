// The verb organ: models taken apart, changed and put together again; each nested verb has a file.
#include "organ.hpp"

namespace vindex::apps {

void add_organ(CLI::App& app, Session& /*session*/) {
  CLI::App* organ =
      app.add_subcommand("organ",
                         "Take models apart, graft, and put loadable GGUF files together\n\n"
                         "`vindex organ VERB --help` has examples.");
  organ->require_subcommand(1);
}

}  // namespace vindex::apps
