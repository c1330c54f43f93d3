// Owns how those flags are declared.
#include "flag_names.hpp"

#include "apps/console/help_text.hpp"
#include "apps/process/session.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace vindex::apps {

void on_choice(CLI::App& app, Session& session, std::function<Ending()> run) {
  app.callback([&session, run = std::move(run)] { session.chosen = run; });
}

CLI::Option* add_layers(CLI::App& verb, std::string& target, const std::string& help) {
  return verb.add_option("--layers,--layer", target, help);
}

CLI::Option* add_blocks(CLI::App& verb, std::string& target, const std::string& help) {
  return verb.add_option("--blocks,--block", target, help);
}

CLI::Option* add_roles(CLI::App& verb, std::string& target, const std::string& help) {
  return verb.add_option("--roles,--role", target, help);
}

void add_force(CLI::App& verb, bool& target, const std::string& help) {
  verb.add_flag("--force", target, help);
  add_former_flag(verb, "--replace", "--force");
}

void add_accept_findings(CLI::App& verb, bool& target, const std::string& help) {
  verb.add_flag("--accept-findings", target, help);
}

void add_former_flag(CLI::App& verb, const std::string& former, const std::string& now) {
  verb.add_flag_callback(
          former,
          [former, now] { throw UsageError("E-USAGE", fmt::format("{} is {} now", former, now)); },
          "")
      ->group("");
}

void add_reshape(CLI::App& verb, std::string& choice) {
  verb.add_option("--reshape", choice,
                  "out: tensors of rank 3 and more (convolutions) as out x rest")
      ->check(CLI::IsMember({"none", "out"}))
      ->capture_default_str();
}

}  // namespace vindex::apps
