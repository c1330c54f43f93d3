// The command validate: a results file checked against its schema.
#include "results/reading/validate.hpp"

#include "apps/console/terminal.hpp"
#include "apps/options/command.hpp"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

namespace vindex::apps {

void add_validate(Command& app, Session& session) {
  auto path = std::make_shared<std::string>();
  Command& command = app.add_command("validate",
                                     "Check a results file against the schema\n\n"
                                     "Example:\n  vindex validate OUT.h5");
  command.add_results("file", *path, "Results file")->required();
  command.runs(session, [path] {
    const std::vector<std::string> faults = results::validate_file(*path);
    std::string text;
    for (const std::string& fault : faults) {
      text += fault + "\n";
    }
    print_result(faults.empty() ? fmt::format("{}: valid\n", printable(*path)) : text);
    if (faults.empty()) {
      return Ending();
    }
    return Ending(ExitCode::kMalformedInput,
                  fmt::format("E-INVALID: {}: {}{}", printable(*path), faults.front(),
                              faults.size() == 1 ? std::string()
                                                 : fmt::format(" ({} more on standard output)",
                                                               faults.size() - 1)));
  });
}

}  // namespace vindex::apps
