// Owns what the commands below `vindex organ` share.
#pragma once

#include "apps/options/command.hpp"

#include <cstdint>
#include <string>

namespace vindex::apps {

void add_organ_extract(Command& organ, Session& session);
void add_organ_measure(Command& organ, Session& session);
void add_organ_purify(Command& organ, Session& session);
void add_organ_graft(Command& organ, Session& session);
void add_organ_assemble(Command& organ, Session& session);
void add_organ_verify(Command& organ, Session& session);
void add_organ_diff(Command& organ, Session& session);

/// "1.2 GiB in 0.8 s, 1500 MB/s".
std::string rate_text(std::uint64_t bytes, double seconds);

}  // namespace vindex::apps
