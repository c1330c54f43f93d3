// Owns how much memory a run may take where the user does not say: the least of what the machine,
// the control groups around this process and the batch system leave it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace vindex::engine {

/// Something that bounds the memory of this process.
struct MemoryLimit {
  std::string source;      ///< "MemAvailable", "memory.max", "SLURM_MEM_PER_NODE"
  std::string where;       ///< file it stands in; empty: the environment
  std::uint64_t left = 0;  ///< bytes that may still be taken
};

/// Variables of Slurm as they stand in the environment; empty: not set. Memory is in MiB, 0 stands
/// for all of a node.
struct SlurmVariables {
  std::string mem_per_node = {};
  std::string mem_per_cpu = {};
  std::string cpus_on_node = {};
};

/// What a run may take, and why no more.
struct RamBudget {
  std::uint64_t bytes = 0;
  MemoryLimit limit;                  ///< that decided
  std::vector<std::string> warnings;  ///< one line for each variable that is passed over

  /// "--ram-budget", "three quarters of what memory.max leaves".
  std::string source_text() const;
};

/// What the system says: MemAvailable, and every limit of the control groups from the one of this
/// process up to the root (version 1 and 2; the page cache that they would give up first is left).
/// A file that is absent or no number is no limit. `root`: the folder that holds proc and sys.
std::vector<MemoryLimit> system_memory_limits(const std::string& root = "/");

/// Three quarters of the least of `limits` and of what Slurm grants. Nothing known: 3 GiB.
RamBudget default_ram_budget(std::vector<MemoryLimit> limits, const SlurmVariables& slurm);

}  // namespace vindex::engine
