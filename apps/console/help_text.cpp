// Owns the wrapping of help: descriptions stand in a column beside the options where the terminal
// has room, below them where it has none; lists of choices are broken at their commas.
#include "help_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <sstream>
#include <utility>
#include <vector>

namespace vindex::apps {

namespace {

constexpr std::size_t kFewestColumns = 50;  ///< beside the names of options
constexpr std::size_t kMostColumns = 100;   ///< longer lines are hard to read
constexpr std::size_t kOptionColumn = 30;   ///< where what an option does begins
constexpr std::size_t kCommandColumn = 13;  ///< the longest name of a command, and two spaces

/// What a line is put together from.
struct Piece {
  std::string text;
  bool is_glued = false;  ///< no space before it
};

/// The words of `text`; a list with commas that would fill half a line is several.
std::vector<Piece> pieces_of(const std::string& text, std::size_t columns) {
  const std::size_t longest = columns / 2;
  std::vector<Piece> pieces;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    bool is_glued = false;
    for (std::size_t comma = 0; word.size() > longest; word.erase(0, comma + 1)) {
      comma = word.rfind(',', longest);
      if (comma == std::string::npos) {
        break;
      }
      pieces.push_back({word.substr(0, comma + 1), is_glued});
      is_glued = true;
    }
    pieces.push_back({word, is_glued});
  }
  return pieces;
}

/// `first` and `text` behind it, in lines of at most `columns`; those after the first begin at
/// `indent`. A word that is longer stays whole.
std::string wrapped(std::string line, const std::string& text, std::size_t indent,
                    std::size_t columns) {
  std::string out;
  for (const Piece& piece : pieces_of(text, columns)) {
    const bool is_spaced = !piece.is_glued && !line.empty() && line.back() != ' ';
    if (line.size() + (is_spaced ? 1 : 0) + piece.text.size() > columns) {
      out += line + "\n";
      line.assign(indent, ' ');
      line += piece.text;
    } else {
      line += (is_spaced ? " " : "") + piece.text;
    }
  }
  return out + line + "\n";
}

/// `text` in a column that begins at `column`, beside `left` where that leaves room, else below it.
std::string two_columns(const std::string& left, const std::string& text, std::size_t column,
                        std::size_t columns) {
  if (text.empty()) {
    return left + "\n";
  }
  const bool has_room = left.size() + 2 <= column;
  return (has_room ? "" : left + "\n") +
         wrapped(fmt::format("{:<{}}", has_room ? left : "", column), text, column, columns);
}

/// The group's name stands beside its first command: lines of their own would not fit the screen.
std::string command_list(const CLI::App& app) {
  constexpr std::size_t kGroupColumn = 9;
  std::string text = app.get_description() + "\n";
  std::string group;
  for (const CLI::App* command : commands_of(app)) {
    text +=
        fmt::format("{:<{}}{:<{}}{}\n", command->get_group() == group ? "" : command->get_group(),
                    kGroupColumn, command->get_name(), kCommandColumn, summary_of(*command));
    group = command->get_group();
  }
  return text + app.get_footer() + "\n";
}

}  // namespace

std::vector<const CLI::App*> commands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* command) { return !command->get_group().empty(); });
}

std::string summary_of(const CLI::App& command) {
  const std::string text = command.get_description();
  return text.substr(0, text.find('\n'));
}

std::string shown_name(const CLI::Option& option) {
  std::string name = option.get_name();
  if (option.get_positional()) {
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char letter) { return std::toupper(letter); });
  }
  return name;
}

HelpText::HelpText(std::size_t terminal)
    : columns_(std::clamp(terminal, kFewestColumns, kMostColumns)) {
  label("Positionals", "Arguments");
  label("SUBCOMMAND", "COMMAND");
  column_width(kOptionColumn);
}

std::string HelpText::make_help(const CLI::App* app, std::string name,
                                CLI::AppFormatMode mode) const {
  return app->get_parent() == nullptr ? command_list(*app)
                                      : CLI::Formatter::make_help(app, std::move(name), mode);
}

std::string HelpText::make_description(const CLI::App* app) const {
  std::string text;
  std::string paragraph;
  std::istringstream lines(app->get_description());
  const auto end_paragraph = [&] {
    text += paragraph.empty() ? "" : wrapped("", paragraph, 0, columns_);
    paragraph.clear();
  };
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.front() == ' ') {
      end_paragraph();
      text += line + "\n";
    } else {
      paragraph += line + " ";
    }
  }
  end_paragraph();
  return text + "\n";
}

std::string HelpText::make_subcommands(const CLI::App* app, CLI::AppFormatMode /*mode*/) const {
  std::string text;
  for (const CLI::App* command : commands_of(*app)) {
    text +=
        two_columns("  " + command->get_name(), summary_of(*command), kCommandColumn + 2, columns_);
  }
  return text.empty() ? text : "\nCommands:\n" + text;
}

std::string HelpText::make_option(const CLI::Option* option, bool is_positional) const {
  constexpr std::size_t kNameIndent = 6;
  std::string left = wrapped("  " + make_option_name(option, is_positional),
                             make_option_opts(option), kNameIndent, columns_);
  left.pop_back();
  return two_columns(left, make_option_desc(option), kOptionColumn, columns_);
}

/// Without the type where a rule says more: `{none,out}` and `INT in [0 - 64]`.
std::string HelpText::make_option_opts(const CLI::Option* option) const {
  std::string text = CLI::Formatter::make_option_opts(option);
  const std::size_t colon = text.find(':');
  if (colon != std::string::npos &&
      text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ ") == colon) {
    text.erase(0, colon + 1);
  }
  return text;
}

}  // namespace vindex::apps
