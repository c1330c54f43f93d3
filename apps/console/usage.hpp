// Owns what is said of a command line that is none: what is missing, unknown or too much, and what
// was probably meant.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <utility>
#include <vector>

namespace vindex::apps {

/// Throws UsageError where the first word of `arguments` (argv) is no command of `app`, or the next
/// one no command of that: CLI11 would only say that one is missing. No option before a command
/// takes a value.
void expect_command(const CLI::App& app, const std::vector<std::string>& arguments);

/// The command that `app` has parsed up to, and what to call it: "vindex edit insert".
std::pair<const CLI::App*, std::string> chosen_command(const CLI::App& app);

/// What to say where CLI11 says `what` ("b is required"): the command, what is missing, and what
/// that is; or the unknown flag that is its misspelling.
std::string missing_text(const CLI::App& app, const std::string& what);

/// What to say where words are left over: the first unknown flag and the flag of the command that
/// is spelt nearly so, or else the first word.
std::string extra_text(const CLI::App& app);

/// Throws UsageError E-USAGE (64) where a flag of the parsed `command`, called `path`, was given an
/// empty value: what an unset variable leaves of `--worker "$INDEX"`, and never what was meant.
/// Some commands would do the work of all without a word.
void expect_values(const CLI::App& command, const std::string& path);

}  // namespace vindex::apps
