// Owns what the verbs below `vindex organ` share.
#pragma once

#include "apps/process/session.hpp"

#include <cstdint>
#include <string>

namespace vindex::apps {

void add_organ_extract(CLI::App& organ, Session& session);
void add_organ_measure(CLI::App& organ, Session& session);
void add_organ_purify(CLI::App& organ, Session& session);
void add_organ_graft(CLI::App& organ, Session& session);
void add_organ_assemble(CLI::App& organ, Session& session);
void add_organ_verify(CLI::App& organ, Session& session);
void add_organ_diff(CLI::App& organ, Session& session);

/// "1.2 GiB in 0.8 s, 1500 MB/s".
std::string rate_text(std::uint64_t bytes, double seconds);

}  // namespace vindex::apps
