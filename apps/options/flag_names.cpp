// Owns how those flags are declared.
#include "flag_names.hpp"

#include "apps/console/help_text.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace vindex::apps {

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

void expect_values(const CLI::App& command, const std::string& path) {
  for (const CLI::Option* option : command.get_options()) {
    const bool takes_value = option->get_items_expected_min() > 0 && !option->get_positional();
    const auto& values = option->results();
    if (takes_value && std::find(values.begin(), values.end(), "") != values.end()) {
      throw UsageError(
          "E-USAGE", fmt::format("{}: {} has an empty value; give one, or leave the flag out", path,
                                 shown_name(*option)));
    }
  }
}

}  // namespace vindex::apps
