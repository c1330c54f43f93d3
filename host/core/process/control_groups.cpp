// Owns reading /proc/self/cgroup and the mounted hierarchies of both versions, and the quota of
// processor time as a number of cores.
#include "control_groups.hpp"

#include "core/integers.hpp"
#include "core/text/text_parts.hpp"

#include <algorithm>
#include <fstream>
#include <limits>

namespace vindex {

namespace fs = std::filesystem;

namespace {

void add_groups(const fs::path& mounted, const std::string& group, bool is_version_2,
                std::vector<ControlGroup>& groups) {
  fs::path folder = mounted;
  groups.push_back({folder, is_version_2});
  for (const fs::path& name : fs::path(group).relative_path()) {
    if (name == ".." || name.empty()) {
      return;  // outside of what this namespace sees
    }
    folder /= name;
    groups.push_back({folder, is_version_2});
  }
}

/// Nothing where the group has no quota (version 2 says "max", version 1 says -1).
std::optional<std::uint64_t> cores_of(const ControlGroup& group) {
  std::optional<std::uint64_t> quota, period;
  if (group.is_version_2) {
    std::ifstream file(group.folder / "cpu.max");
    std::string words[2];
    file >> words[0] >> words[1];
    quota = parsed_number(words[0]);
    period = parsed_number(words[1]);
  } else {
    quota = number_in(group.folder / "cpu.cfs_quota_us");
    period = number_in(group.folder / "cpu.cfs_period_us");
  }
  if (!quota || !period || *period == 0) {
    return std::nullopt;
  }
  return std::max<std::uint64_t>(ceil_divide(*quota, *period), 1);
}

}  // namespace

std::optional<std::uint64_t> parsed_number(std::string_view text) {
  return whole_number<std::uint64_t>(text);
}

std::optional<std::uint64_t> number_in(const fs::path& file) {
  std::ifstream stream(file);
  std::string line;
  return std::getline(stream, line) ? parsed_number(line) : std::nullopt;
}

std::vector<ControlGroup> control_groups(const std::string& root, const std::string& controller) {
  const fs::path mounts = fs::path(root) / "sys/fs/cgroup";
  std::vector<ControlGroup> groups;
  std::ifstream file(fs::path(root) / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    // "number:controllers:path"; version 2 has no controllers.
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) {
      continue;
    }
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    std::error_code ignored;
    if (controllers.empty()) {
      const bool hybrid = fs::is_directory(mounts / "unified", ignored);
      add_groups(hybrid ? mounts / "unified" : mounts, path, true, groups);
    } else if (("," + controllers + ",").find("," + controller + ",") != std::string::npos) {
      // Those that share a hierarchy are mounted under all their names; mostly each has a link.
      const bool has_link = fs::is_directory(mounts / controller, ignored);
      add_groups(mounts / (has_link ? controller : controllers), path, false, groups);
    }
  }
  return groups;
}

std::optional<std::int32_t> quota_cores(const std::string& root) {
  std::optional<std::int32_t> least;
  for (const ControlGroup& group : control_groups(root, "cpu")) {
    if (const auto cores = cores_of(group)) {
      const auto own = static_cast<std::int32_t>(
          std::min<std::uint64_t>(*cores, std::numeric_limits<std::int32_t>::max()));
      least = std::min(least.value_or(own), own);
    }
  }
  return least;
}

}  // namespace vindex
