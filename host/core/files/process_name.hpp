// Owns how processes know each other: the machine and process that temporary files and locks name.
#pragma once

#include <cstdint>
#include <string>

namespace vindex {

/// This machine's name, letters, digits, '-' and '_' only.
const std::string& host_name();

/// When process `pid` of this machine began, in ticks since boot; empty where it is gone or /proc
/// does not say.
std::string process_start(std::int64_t pid);

/// True where process `pid` of this machine, begun at `start` (empty: unknown), is certainly gone:
/// nobody has its number, or somebody who began at another time.
bool process_is_gone(std::int64_t pid, const std::string& start = std::string());

}  // namespace vindex
