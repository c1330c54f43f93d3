// Owns variables of the environment that the program reads by itself.
#pragma once

#include "engine/plan/worker_share.hpp"

#include <string>

namespace vindex::apps {

/// The value of a variable; empty where it is not set.
std::string environment_variable(const char* name);

/// What a scheduler says in this process's environment.
engine::SchedulerVariables scheduler_variables();

}  // namespace vindex::apps
