// Owns what an output path must be before anything is written there, and the names in a parts
// folder: who works there and what has been published, so that a list that broke off is an error
// and never a shorter list.
#pragma once

#include "results/schema/run_description.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace vindex::results {

bool file_exists(const std::string& path);

/// `path`, through a symbolic link to what it names, so that a rename replaces the file and not the
/// link. Errors: OutputError where it is a folder, no regular file, or its folder does not exist.
std::string resolve_output(const std::string& path);

/// Refuses to replace anything but a results file of `schema` (nothing: of any of ours). Errors:
/// OutputError E-OUT-FOREIGN, ConfigurationError for a newer version.
void require_replaceable(const std::string& path, std::optional<FileSchema> schema = std::nullopt);

/// `before` and then `now`, one line per command, bounded.
std::string joined_history(const std::string& before, const std::string& now);

/// The number in `name` right after `prefix`; 0 if there is none.
std::int64_t number_after(const std::string& name, const std::string& prefix);

/// The names in `folder` that are `wanted`, sorted; an absent folder has none. Errors: SystemError
/// E-PART-FOLDER.
std::vector<std::string> names_in(const std::string& folder,
                                  const std::function<bool(const std::string&)>& wanted);

}  // namespace vindex::results
