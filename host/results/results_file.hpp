// Owns what an output path must be before anything is written there.
#pragma once

#include <vindex/results/run_store.hpp>

#include <cstdint>
#include <optional>
#include <string>

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

}  // namespace vindex::results
