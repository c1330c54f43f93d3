// Owns the refusal of flags with an empty value: what an unset variable leaves of `--worker
// "$INDEX"`, and never what was meant. Some commands would do the work of all without a word.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace vindex::apps {

/// Throws UsageError E-USAGE (64) where a flag of the parsed `command`, called `path`, was given
/// an empty value.
void expect_values(const CLI::App& command, const std::string& path);

}  // namespace vindex::apps
