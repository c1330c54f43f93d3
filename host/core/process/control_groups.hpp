// Owns finding the control groups that bound this process, of both versions, for whoever reads a
// limit there: memory (engine/plan/memory_budget.hpp), processor time (core/process/parallel.hpp).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace vindex {

/// A group that this process is in, or one above it.
struct ControlGroup {
  std::filesystem::path folder;  ///< its files
  bool is_version_2 = false;
};

/// The groups of `controller` ("memory", "cpu") from the folder where the hierarchy is mounted down
/// to this process's own. In a container that folder is its own group and the others may name a
/// path of the host: a group whose files are not there bounds nothing. `root`: the folder that
/// holds proc and sys.
std::vector<ControlGroup> control_groups(const std::string& root, const std::string& controller);

/// The least quota of processor time among those groups, as whole cores, rounded up; nothing where
/// there is none. `root` as above.
std::optional<std::int32_t> quota_cores(const std::string& root = "/");

/// All of `text` as a decimal number.
std::optional<std::uint64_t> parsed_number(std::string_view text);
/// The number that is all of a file's first line ("max" is none).
std::optional<std::uint64_t> number_in(const std::filesystem::path& file);

}  // namespace vindex
