// Owns declaring commands of commands, what runs them, and spellings of earlier versions.
#include "command.hpp"

#include <vindex/error.hpp>

#include <fmt/format.h>

#include <memory>

namespace vindex::apps {

const char* kind_name(ValueKind kind) {
  switch (kind) {
    case ValueKind::kValue:
      return "value";
    case ValueKind::kInput:
      return "input";
    case ValueKind::kResults:
      return "results";
    case ValueKind::kParts:
      return "parts";
    case ValueKind::kDirection:
      return "direction";
    case ValueKind::kBudget:
      return "budget";
    case ValueKind::kDevices:
      return "devices";
    case ValueKind::kShare:
      return "share";
    case ValueKind::kOutput:
      return "output";
    case ValueKind::kCaller:
      return "caller";
  }
  return "";
}

Command& Command::add_command(const std::string& name, const std::string& about) {
  const auto command = std::make_shared<Command>(about, name, this);
  add_subcommand(command);
  return *command;
}

void Command::runs(Session& session, std::function<Ending()> run) {
  callback([&session, run = std::move(run)] { session.chosen = run; });
}

CLI::Option* Command::add_unread(ValueKind kind, const std::string& names,
                                 const std::string& help) {
  const auto ignore = [](const std::string& /*value*/) {};
  return declare({kind, {}}, CLI::App::add_option_function<std::string>(names, ignore, help));
}

void Command::add_former_flag(const std::string& former, const std::string& now) {
  add_flag_callback(
      former,
      [former, now] { throw UsageError("E-USAGE", fmt::format("{} is {} now", former, now)); }, "")
      ->group("");
}

void Command::add_former_option(const std::string& former, const std::string& id,
                                const std::string& text) {
  const auto refuse = [id, text](const std::string& /*value*/) { throw UsageError(id, text); };
  CLI::App::add_option_function<std::string>(former, refuse, "")->group("");
}

}  // namespace vindex::apps
