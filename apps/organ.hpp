// Owns what the verbs below `vindex organ` share.
#pragma once

#include "verbs.hpp"

namespace vindex::apps {

// One line for each nested verb: void add_organ_NAME(CLI::App& organ, Session& session);

}  // namespace vindex::apps
