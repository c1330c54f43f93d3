// Owns `--config FILE`: a file of options in the place of words of the command line.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace vindex::apps {

/// `arguments` (argv) with the flags of `--config FILE` put in behind the command of `app`, where
/// the command line does not give them itself. The file holds `name = value` lines (TOML or INI);
/// `model` and `output` may stand there too. Errors: MissingInputError E-CONFIG where there is no
/// such file, UsageError E-CONFIG where it cannot be read.
std::vector<std::string> with_configuration(std::vector<std::string> arguments,
                                            const CLI::App& app);

}  // namespace vindex::apps
