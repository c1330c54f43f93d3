// Owns the list of commands, in the order and the groups of the program's help.
#pragma once

#include "apps/options/command.hpp"

namespace vindex::apps {

/// Adds every command to `app`.
void add_commands(Command& app, Session& session);

}  // namespace vindex::apps
