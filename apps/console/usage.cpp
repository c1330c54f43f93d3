// Owns finding out what is wrong with such a command line.
#include "usage.hpp"

#include "help_text.hpp"

#include "core/text/nearest_name.hpp"
#include "core/text/text_parts.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>

namespace vindex::apps {

namespace {

/// The first flag among the words that `app` has left over; empty: there is none.
std::string unknown_flag(const CLI::App& app) {
  const std::vector<std::string> extra = app.remaining(true);
  const auto flag = std::find_if(extra.begin(), extra.end(), [](const std::string& word) {
    return word.size() > 1 && word.starts_with('-');
  });
  return flag == extra.end() ? std::string() : flag->substr(0, flag->find('='));
}

}  // namespace

void expect_command(const CLI::App& app, const std::vector<std::string>& arguments) {
  const CLI::App* parent = &app;
  std::string path = "vindex";
  auto word = arguments.begin() + 1;
  while (true) {
    const auto commands = commands_of(*parent);
    word = std::find_if(word, arguments.end(),
                        [](const std::string& text) { return !text.starts_with('-'); });
    if (commands.empty()) {
      return;
    }
    if (word == arguments.end()) {
      const bool is_question =
          std::any_of(arguments.begin(), arguments.end(), [](const std::string& text) {
            return text == "-h" || text == "--help" || text == "--version";
          });
      if (is_question) {
        return;
      }
      throw UsageError("E-USAGE",
                       fmt::format("no command given; `{} --help` lists the commands", path));
    }
    const auto all = parent->get_subcommands([](const CLI::App* /*command*/) { return true; });
    const auto found = std::find_if(all.begin(), all.end(), [&](const CLI::App* command) {
      return command->check_name(*word);
    });
    if (found == all.end()) {
      std::vector<std::string> names;
      for (const CLI::App* command : commands) {
        names.push_back(command->get_name());
      }
      const std::string within = parent == &app ? "" : parent->get_name() + " ";
      const std::string guess = nearest_name(*word, names);
      throw UsageError(
          "E-USAGE",
          fmt::format(
              "unknown command '{}{}';{} `{} --help` lists the commands", within, excerpt(*word),
              guess.empty() ? "" : fmt::format(" did you mean '{}{}'?", within, guess), path));
    }
    parent = *found;
    path += " " + parent->get_name();
    ++word;
  }
}

std::pair<const CLI::App*, std::string> chosen_command(const CLI::App& app) {
  const CLI::App* command = &app;
  std::string path = "vindex";
  while (!command->get_subcommands().empty()) {
    command = command->get_subcommands().front();
    path += " " + command->get_name();
  }
  return {command, path};
}

std::string missing_text(const CLI::App& app, const std::string& what) {
  if (!unknown_flag(app).empty()) {
    return extra_text(app);  // what is missing may be what is misspelt
  }
  const auto [command, path] = chosen_command(app);
  for (const CLI::Option* option : command->get_options()) {
    if (option->get_required() && what.starts_with(option->get_name() + " ")) {
      return fmt::format("{} needs {} ({}); `{} --help` has examples", path, shown_name(*option),
                         option->get_description(), path);
    }
  }
  return fmt::format("{}; see `{} --help`", what, path);
}

std::string extra_text(const CLI::App& app) {
  const auto [command, path] = chosen_command(app);
  const std::string word = unknown_flag(app);
  if (word.empty()) {
    const std::vector<std::string> extra = app.remaining(true);
    return fmt::format("{}: an argument too many: '{}'; `{} --help` has examples", path,
                       extra.empty() ? "" : excerpt(extra.front()), path);
  }
  std::vector<std::string> names;
  for (const CLI::Option* option : command->get_options()) {
    for (const std::string& name : option->get_lnames()) {
      names.push_back("--" + name);
    }
  }
  const std::string guess = nearest_name(word, names);
  return fmt::format("{} has no flag {};{} `{} --help` lists them", path, excerpt(word),
                     guess.empty() ? "" : fmt::format(" did you mean {}?", guess), path);
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
