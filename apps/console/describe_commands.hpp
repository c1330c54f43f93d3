// Owns the list of commands as a document for programs: what `vindex --describe-commands` prints.
// The Python package and the HTTP server check what they are given against it, so that a new option
// is known to them by being declared once.
#pragma once

#include <CLI/CLI.hpp>

#include <string>

namespace vindex::apps {

/// Every command of `app`, one JSON document:
///   {"version": "0.1.0", "commands": {"measure": {"description": ..., "positionals": [{"name",
///   "required", "many", "description"}], "options": [{"name": "--layers", "aliases": ["-l"],
///   "takes_value", "required", "many", "choices": [...], "values": "INT in [0 - 64]",
///   "description"}]}}}
/// A command of a command is named "organ.extract". Help and what is hidden in it are left out, the
/// options of the program itself stand with every command.
std::string describe_commands(const CLI::App& app);

}  // namespace vindex::apps
