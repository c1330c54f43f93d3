// Owns what the verbs below `vindex organ` share.
#pragma once

#include "verbs.hpp"

#include <vindex/core/warning.hpp>

#include <string>
#include <vector>

namespace vindex::apps {

void add_organ_diff(CLI::App& organ, Session& session);
void add_organ_graft(CLI::App& organ, Session& session);
void add_organ_extract(CLI::App& organ, Session& session);
void add_organ_assemble(CLI::App& organ, Session& session);
void add_organ_purify(CLI::App& organ, Session& session);
void add_organ_verify(CLI::App& organ, Session& session);

/// "vindex 0.1.0 (commit)": what a document says of the program that wrote it.
std::string organ_tool_name();

/// Says warnings on standard error.
void say_warnings(const Session& session, const std::vector<Warning>& warnings);

/// "1.2 GiB in 0.8 s, 1500 MB/s".
std::string rate_text(std::uint64_t bytes, double seconds);

void add_organ_measure(CLI::App& organ, Session& session);

}  // namespace vindex::apps
