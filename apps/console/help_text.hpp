// Owns how help looks: one screen that lists the commands by group, and the help of one command,
// wrapped at the width of the terminal.
#pragma once

#include <CLI/CLI.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace vindex::apps {

/// The commands of a command, or of the program, in the order of the help; without hidden ones.
std::vector<const CLI::App*> commands_of(const CLI::App& app);

/// What `command` does, in the line that lists of commands show.
std::string summary_of(const CLI::App& command);

/// What texts call an argument or option of a command: "MODEL", "--layers".
std::string shown_name(const CLI::Option& option);

/// A command's description begins with its summary, one line that the lists of commands show too;
/// behind it come examples (indented lines stay as they are) and notes (paragraphs are wrapped).
class HelpText : public CLI::Formatter {
 public:
  /// `terminal`: columns that there are; lines have 50 to 100.
  explicit HelpText(std::size_t terminal);
  /// Without a parent the list of commands, else the help of that command.
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override;
  std::string make_description(const CLI::App* app) const override;
  std::string make_subcommands(const CLI::App* app, CLI::AppFormatMode mode) const override;
  std::string make_option(const CLI::Option* option, bool is_positional) const override;
  std::string make_option_opts(const CLI::Option* option) const override;

 private:
  std::size_t columns_;
};

}  // namespace vindex::apps
