// Owns the walk over the tree of commands that makes this document: types, choices and bounds are
// read off the rules that CLI11 prints, kinds off what each option was declared as.
#include "describe_commands.hpp"

#include "apps/console/help_text.hpp"
#include "apps/options/command.hpp"
#include "core/json/json_document.hpp"
#include "core/text/text_parts.hpp"
#include "engine/run/version.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace vindex::apps {

namespace {

/// What stands in `text` between `open` and `close`.
std::string_view within(std::string_view text, char open, char close) {
  const std::size_t begin = text.find(open);
  const std::size_t end = text.find(close, begin == std::string_view::npos ? text.size() : begin);
  return end == std::string_view::npos ? std::string_view()
                                       : text.substr(begin + 1, end - begin - 1);
}

/// A bound as a number, without a fraction where it has none.
Json bound(std::string_view text) {
  const auto whole = whole_number<std::int64_t>(text);
  return whole ? Json(*whole) : Json(*whole_number<double>(text));
}

/// Type, choices and bounds, as the help says them: "TEXT:{auto,cpu,cuda}", "INT in [0 - 64]".
void add_type(const CLI::Option& option, Json& described) {
  const std::string values = option.get_type_name();
  const bool is_number = values.starts_with("NUMBER");
  const bool is_integer = values.starts_with("INT") || values.starts_with("UINT");
  described["type"] = option.get_items_expected_max() == 0 ? "flag"
                      : is_number                          ? "number"
                      : is_integer                         ? "integer"
                                                           : "text";
  described["choices"] = Json::array();
  for (const std::string_view choice : split(within(values, '{', '}'), ',')) {
    if (!choice.empty()) {
      described["choices"].push_back(choice);
    }
  }
  const std::string_view range = within(values, '[', ']');
  const std::size_t dash = range.find(" - ");
  if (dash != std::string_view::npos) {
    described["minimum"] = bound(range.substr(0, dash));
    described["maximum"] = bound(range.substr(dash + 3));
  } else if (is_integer && values.find("POSITIVE") != std::string::npos) {
    described["minimum"] = 1;
  } else if (values.starts_with("UINT")) {
    described["minimum"] = 0;
  }
}

Json describe(const CLI::Option& option, const Command::Value& value) {
  Json described = {
      {"name", shown_name(option)},          {"kind", kind_name(value.kind)},
      {"required", option.get_required()},   {"many", option.get_items_expected_max() > 1},
      {"default", option.get_default_str()}, {"description", option.get_description()}};
  if (!option.get_positional()) {
    std::vector<std::string> names;
    for (const std::string& name : option.get_lnames()) {
      names.push_back("--" + name);
    }
    for (const std::string& name : option.get_snames()) {
      names.push_back("-" + name);
    }
    described["name"] = names.front();
    described["aliases"] = std::vector<std::string>(names.begin() + 1, names.end());
  }
  if (value.kind == ValueKind::kOutput) {
    described["file"] = value.file;
  }
  add_type(option, described);
  return described;
}

/// Options of `command` into `options`; those without a group are hidden, and help is no option of
/// ours.
void add_options(const Command& command, Json& options, Json& positionals) {
  const auto is_shown = [&](const CLI::Option* option) {
    return !option->get_group().empty() && option != command.get_help_ptr() &&
           option != command.get_version_ptr();
  };
  for (const CLI::Option* option : command.get_options(is_shown)) {
    (option->get_positional() ? positionals : options)
        .push_back(describe(*option, command.value_of(*option)));
  }
}

/// Calls `see` with every command that does something by itself, and its name "organ.extract".
void for_each_command(const Command& parent, const std::string& before,
                      const std::function<void(const Command&, const std::string&)>& see) {
  for (const CLI::App* app : parent.get_subcommands([](const CLI::App* /*app*/) { return true; })) {
    const auto& command = dynamic_cast<const Command&>(*app);
    const std::string name = before + command.get_name();
    if (commands_of(command).empty()) {
      see(command, name);
    } else {
      for_each_command(command, name + ".", see);
    }
  }
}

}  // namespace

std::string describe_commands(const Command& program) {
  Json commands = Json::object();
  for_each_command(program, "", [&](const Command& command, const std::string& name) {
    Json options = Json::array();
    Json positionals = Json::array();
    add_options(command, options, positionals);
    add_options(program, options, positionals);
    commands[name] = {
        {"description", summary_of(command)}, {"positionals", positionals}, {"options", options}};
  });
  const Json document = {{"schema", "vindex-commands/1"},
                         {"version", engine::program_version()},
                         {"commands", commands}};
  return document.dump(2) + "\n";
}

std::string commands_text(const Command& program) {
  std::string text;
  for_each_command(program, "", [&](const Command& command, std::string name) {
    std::replace(name.begin(), name.end(), '.', ' ');
    text += fmt::format("{:<16}{}\n", name, summary_of(command));
  });
  return text;
}

}  // namespace vindex::apps
