// Owns the description of the commands for programs: what `vindex commands --json` prints. The
// Python package, the HTTP server and the tests know commands, options and kinds of values from it
// alone, so that a new option is declared once.
#pragma once

#include "apps/options/command.hpp"

#include <string>

namespace vindex::apps {

/// Every command of `program`, one JSON document:
///   {"schema": "vindex-commands/1", "version": "0.1.0", "commands": {"measure": {"description":
///   ..., "positionals": [...], "options": [...]}}}
/// A command of a command is named "organ.extract". Positionals and options have
///   {"name": "--layers", "aliases": ["--layer"], "kind": "value" (kind_name()), "type": "text",
///   "required", "many", "choices": [...], "minimum", "maximum", "default", "description"}
/// "type": flag, text, integer or number; bounds where there are any; "file" of an output
/// (Command::add_output). Help and options that it hides are left out, the options of the program
/// itself stand with every command.
std::string describe_commands(const Command& program);

/// The same for people: a line for each command.
std::string commands_text(const Command& program);

}  // namespace vindex::apps
