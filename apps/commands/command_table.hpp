// Owns the list of commands, in the order and the groups of the program's help.
#pragma once

#include "apps/process/session.hpp"

#include <CLI/CLI.hpp>

namespace vindex::apps {

/// Adds every command to `app`.
void add_commands(CLI::App& app, Session& session);

}  // namespace vindex::apps
