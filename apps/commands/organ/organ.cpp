// The command organ: models taken apart, changed and put together again; each nested command has a
// file.
#include "organ.hpp"

#include "apps/process/session.hpp"
#include "core/text/size_text.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace vindex::apps {

std::string rate_text(std::uint64_t bytes, double seconds) {
  return fmt::format("{} in {:.2f} s, {}/s", data_text(bytes), seconds,
                     data_text(static_cast<double>(bytes) / std::max(seconds, 1e-6)));
}

void add_organ(Command& app, Session& session) {
  Command& organ = app.add_command("organ",
                                   "Take GGUF models apart, measure, purify, graft, assemble\n\n"
                                   "Examples:\n  vindex organ extract model.gguf -o organs\n"
                                   "  vindex organ assemble organs -o again.gguf\n"
                                   "  vindex organ measure model.gguf -o report\n"
                                   "  vindex organ purify model.gguf -o clean.gguf --dry-run\n"
                                   "  vindex organ graft --source A.gguf --target B.gguf "
                                   "-o C.gguf \\\n    --layers 5-20 --type organ\n"
                                   "  vindex organ verify model.gguf\n"
                                   "  vindex organ diff A.gguf B.gguf\n"
                                   "`vindex organ COMMAND --help`: options and examples.");
  organ.require_subcommand(1);
  add_organ_extract(organ, session);
  add_organ_measure(organ, session);
  add_organ_purify(organ, session);
  add_organ_graft(organ, session);
  add_organ_assemble(organ, session);
  add_organ_verify(organ, session);
  add_organ_diff(organ, session);
}

}  // namespace vindex::apps
