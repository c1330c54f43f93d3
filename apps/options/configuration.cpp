// Owns reading such a file, and which of its lines the command line overrides.
#include "configuration.hpp"

#include "apps/console/help_text.hpp"
#include "core/text/secrets.hpp"
#include "engine/run/opening.hpp"
#include <vindex/error.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <sstream>

namespace vindex::apps {

namespace {
std::string configuration_text(const std::string& path) {
  constexpr std::size_t kLargest = 1U << 20U;
  std::string text = engine::beginning_of_file(path, kLargest + 1);
  if (text.size() > kLargest) {
    throw UsageError("E-CONFIG", fmt::format("{}: more than {} bytes: no configuration file",
                                             printable(path), kLargest));
  }
  return text;
}

/// The command of `app` that `arguments` (argv) name, and the place behind its name.
std::pair<const CLI::App*, std::ptrdiff_t> named_command(
    const CLI::App& app, const std::vector<std::string>& arguments) {
  std::pair<const CLI::App*, std::ptrdiff_t> found(&app, 1);
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    for (const CLI::App* command : commands_of(*found.first)) {
      if (command->check_name(arguments[i])) {
        found = {command, static_cast<std::ptrdiff_t>(i) + 1};
        break;
      }
    }
  }
  return found;
}

/// Whether `arguments` hold the option `name` of `command`, in any of its spellings.
bool is_given(const std::string& name, const CLI::App& command,
              const std::vector<std::string>& arguments) {
  const CLI::Option* const option = command.get_option_no_throw("--" + name);
  std::vector<std::string> names = {name};
  std::vector<std::string> letters;
  if (option != nullptr) {
    names = option->get_lnames();
    letters = option->get_snames();
  }
  const auto spells = [&](const std::string& argument) {
    return std::any_of(names.begin(), names.end(),
                       [&](const std::string& one) {
                         return argument == "--" + one || argument.starts_with("--" + one + "=");
                       }) ||
           std::any_of(letters.begin(), letters.end(), [&](const std::string& letter) {
             return argument.starts_with("-" + letter);
           });
  };
  return std::any_of(arguments.begin(), arguments.end(), spells);
}

}  // namespace

std::vector<std::string> with_configuration(std::vector<std::string> arguments,
                                            const CLI::App& app) {
  const std::string flag = "--config";
  std::string path;
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    if (arguments[i] == flag && i + 1 < arguments.size()) {
      path = arguments[i + 1];
    } else if (arguments[i].starts_with(flag + "=")) {
      path = arguments[i].substr(flag.size() + 1);
    }
  }
  if (path.empty()) {
    return arguments;
  }
  std::istringstream file(configuration_text(path));
  const auto [command, behind] = named_command(app, arguments);
  std::vector<CLI::ConfigItem> items;
  try {
    items = CLI::ConfigBase().from_config(file);
  } catch (const CLI::Error& error) {
    throw UsageError("E-CONFIG", fmt::format("{}: {}", printable(path), error.what()));
  }
  std::vector<std::string> flags;
  for (const CLI::ConfigItem& item : items) {
    std::string value;
    for (const std::string& input : item.inputs) {
      value += (value.empty() ? "" : ",") + input;
    }
    if (item.name == "model") {
      flags.push_back(value);
    } else if (!is_given(item.name, *command, arguments) && value != "false") {
      flags.push_back(value == "true" ? "--" + item.name
                                      : fmt::format("--{}={}", item.name, value));
    }
  }
  arguments.insert(arguments.begin() + behind, flags.begin(), flags.end());
  return arguments;
}

}  // namespace vindex::apps
