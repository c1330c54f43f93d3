// Owns a command as it is declared: its options and arguments, each with what its value is.
#pragma once

#include "apps/process/session.hpp"

#include <CLI/CLI.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

namespace vindex::apps {

/// What the value of an option or argument is. Who runs the program for others (the HTTP server)
/// takes from it what they may give, and what it names itself: `vindex commands --json` says it.
enum class ValueKind : std::uint8_t {
  kValue,      ///< of the program's own: a number, a name, an expression
  kInput,      ///< path or address of a model, or path of another file that is read
  kResults,    ///< path of a results file that is read
  kParts,      ///< path of parts of a results file
  kDirection,  ///< "feature F", "singular I", or a path that is read
  kBudget,     ///< bytes of memory
  kDevices,    ///< numbers of devices
  kShare,      ///< i/n of the work
  kOutput,     ///< path that is written
  kCaller      ///< matter of the process that calls: what it shows, where it keeps files beside
};

/// "value", "input", ...
const char* kind_name(ValueKind kind);

/// A command of the program, or the program itself. Whatever it takes is declared by a function
/// that asks for its kind; those of CLI::App that do not are hidden.
class Command : public CLI::App {
 public:
  Command(std::string about, std::string name, Command* parent = nullptr)
      : CLI::App(std::move(about), std::move(name), parent) {
    if (parent == nullptr) {
      set_help_flag("-h,--help", "Print this help message and exit");
    }
  }
  Command& add_command(const std::string& name, const std::string& about);
  /// Makes `session` choose `run` when the user names this command.
  void runs(Session& session, std::function<Ending()> run);

  template <typename Target>
  CLI::Option* add(ValueKind kind, const std::string& names, Target& target,
                   const std::string& help) {
    return declare({kind, {}}, CLI::App::add_option(names, target, help));
  }
  template <typename Target>
  CLI::Option* add_value(const std::string& names, Target& target, const std::string& help) {
    return add(ValueKind::kValue, names, target, help);
  }
  template <typename Target>
  CLI::Option* add_input(const std::string& names, Target& target, const std::string& help) {
    return add(ValueKind::kInput, names, target, help);
  }
  template <typename Target>
  CLI::Option* add_results(const std::string& names, Target& target, const std::string& help) {
    return add(ValueKind::kResults, names, target, help);
  }
  /// `file`: what to call it where nobody says; {inputs} stands for the names of the inputs,
  /// {suffix} for the ending of the first one where it is a file of weights.
  CLI::Option* add_output(const std::string& names, std::string& target, const std::string& file,
                          const std::string& help) {
    return declare({ValueKind::kOutput, file}, CLI::App::add_option(names, target, help));
  }
  CLI::Option* add_flag(const std::string& names, bool& target, const std::string& help,
                        ValueKind kind = ValueKind::kValue) {
    return declare({kind, {}}, CLI::App::add_flag(names, target, help));
  }
  /// An option whose value somebody else reads: with_configuration().
  CLI::Option* add_unread(ValueKind kind, const std::string& names, const std::string& help);
  /// A former spelling, not shown: UsageError E-USAGE "`former` is `now` now".
  void add_former_flag(const std::string& former, const std::string& now);
  /// A former option that took a value, not shown: UsageError `id` with `text`.
  void add_former_option(const std::string& former, const std::string& id, const std::string& text);
  void add_option() = delete;

  struct Value {
    ValueKind kind = ValueKind::kValue;
    std::string file;  ///< of an output
  };
  /// What `option`, which was declared here, takes.
  const Value& value_of(const CLI::Option& option) const { return values_.at(&option); }

 private:
  CLI::Option* declare(Value value, CLI::Option* option) {
    values_.emplace(option, std::move(value));
    return option;
  }

  std::map<const CLI::Option*, Value> values_;
};

}  // namespace vindex::apps
