#include "describe_commands.hpp"

#include "help_text.hpp"

#include "core/json/json_document.hpp"
#include "engine/run/version.hpp"

#include <algorithm>
#include <cstddef>
#include <sstream>
#include <vector>

namespace vindex::apps {

namespace {

/// What an option takes, as its help says: "TEXT:{auto,cpu,cuda}", "INT in [0 - 64]".
std::string values_of(const CLI::Option& option) {
  return option.get_items_expected_max() == 0 ? std::string() : option.get_type_name();
}

/// The names of a rule "{auto,cpu,cuda}"; empty where there is no such rule.
Json choices_of(const std::string& values) {
  Json choices = Json::array();
  const std::size_t begin = values.find('{');
  const std::size_t end = values.find('}');
  if (begin == std::string::npos || end == std::string::npos || end < begin) {
    return choices;
  }
  std::istringstream names(values.substr(begin + 1, end - begin - 1));
  for (std::string name; std::getline(names, name, ',');) {
    choices.push_back(name);
  }
  return choices;
}

bool takes_many(const CLI::Option& option) { return option.get_items_expected_max() > 1; }

Json describe_positional(const CLI::Option& option) {
  return {{"name", shown_name(option)},
          {"required", option.get_required()},
          {"many", takes_many(option)},
          {"description", option.get_description()}};
}

Json describe_option(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_lnames()) {
    names.push_back("--" + name);
  }
  for (const std::string& name : option.get_snames()) {
    names.push_back("-" + name);
  }
  Json aliases = Json::array();
  std::for_each(names.begin() + 1, names.end(),
                [&](const std::string& name) { aliases.push_back(name); });
  const std::string values = values_of(option);
  return {{"name", names.front()},
          {"aliases", aliases},
          {"takes_value", option.get_items_expected_max() > 0},
          {"required", option.get_required()},
          {"many", takes_many(option)},
          {"choices", choices_of(values)},
          {"values", values},
          {"description", option.get_description()}};
}

/// Options of `app` into `options`; those without a group are hidden, and help is no option of
/// ours.
void add_options(const CLI::App& app, Json& options, Json& positionals) {
  const auto shown = [&](const CLI::Option* option) {
    return !option->get_group().empty() && option != app.get_help_ptr() &&
           option != app.get_version_ptr();
  };
  for (const CLI::Option* option : app.get_options(shown)) {
    if (option->get_positional()) {
      positionals.push_back(describe_positional(*option));
    } else {
      options.push_back(describe_option(*option));
    }
  }
}

void add_command(const CLI::App& command, const std::string& name, const CLI::App& program,
                 Json& commands) {
  const std::vector<const CLI::App*> parts = commands_of(command);
  for (const CLI::App* part : parts) {
    add_command(*part, name + "." + part->get_name(), program, commands);
  }
  if (!parts.empty()) {
    return;  // it does nothing by itself
  }
  Json options = Json::array();
  Json positionals = Json::array();
  add_options(command, options, positionals);
  add_options(program, options, positionals);
  const std::string about = command.get_description();
  commands[name] = {{"description", about.substr(0, about.find('\n'))},
                    {"positionals", positionals},
                    {"options", options}};
}

}  // namespace

std::string describe_commands(const CLI::App& app) {
  Json commands = Json::object();
  for (const CLI::App* command : commands_of(app)) {
    add_command(*command, command->get_name(), app, commands);
  }
  const Json document = {{"version", engine::program_version()}, {"commands", commands}};
  return document.dump(2) + "\n";
}

}  // namespace vindex::apps
