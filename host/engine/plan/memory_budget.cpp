// Owns the limits that are looked at (/proc/meminfo, control groups of both versions, Slurm's
// variables), the shares of a budget, the queue of those that wait for memory, and leases that give
// it back.
#include "memory_budget.hpp"

#include "core/integers.hpp"
#include "core/process/control_groups.hpp"
#include "results/runs/run_store.hpp"
#include <vindex/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <utility>

namespace vindex::engine {

namespace {

/// Seconds of a fast device's output, whose spectra are 16 KiB each.
constexpr std::uint64_t kQueueBytes = 24U << 20U;
/// Of a small budget, one of so many parts.
constexpr std::uint64_t kQueueShare = 64;
constexpr std::uint64_t kPendingShare = 24;
/// Rows that wait for their part, its image, and the image while it grows.
constexpr std::uint64_t kPartCopies = 3;
/// Rows that are in no queue: at the threads that fill and empty them.
constexpr std::uint64_t kRowsInHand = 2;

}  // namespace

void require_budget(std::uint64_t budget, const std::string& what, std::uint64_t least) {
  if (least > budget) {
    throw ConfigurationError(
        "E-BUDGET", fmt::format("--ram-budget of {} bytes is too small: {} needs {} bytes at least",
                                budget, printable(what), least));
  }
}

ResultQueueBudget result_queue_budget(std::uint64_t ram_budget, std::int64_t row_count,
                                      std::uint64_t largest_row) {
  ResultQueueBudget memory;
  if (row_count == 0) {
    return memory;
  }
  memory.queue_bytes = std::min(kQueueBytes, ram_budget / kQueueShare);
  memory.pending_bytes = std::min(results::kMaxPendingBytes, ram_budget / kPendingShare);
  memory.bytes = 2 * std::max(memory.queue_bytes, largest_row) +
                 kPartCopies * std::max(memory.pending_bytes, largest_row) +
                 kRowsInHand * largest_row +
                 static_cast<std::uint64_t>(row_count) * results::kStoredRowBytes;
  return memory;
}

std::uint64_t budget_for(std::uint64_t units, std::int64_t row_count, std::uint64_t largest_row) {
  // A byte more of budget makes less than a sixth of a byte of hand-over: this ends soon.
  std::uint64_t budget = units;
  while (true) {
    const std::uint64_t wanted = units + result_queue_budget(budget, row_count, largest_row).bytes;
    if (wanted <= budget) {
      return budget;
    }
    budget = wanted;
  }
}

bool MemoryBudget::acquire(std::uint64_t bytes) {
  expects(bytes <= total_, "a unit of work was admitted that exceeds the memory budget");
  std::unique_lock lock(mutex_);
  const std::uint64_t ticket = next_ticket_++;
  changed_.wait(lock, [&] { return stopped_ || (ticket == serving_ && bytes <= free_); });
  if (stopped_) {
    return false;
  }
  free_ -= bytes;
  ++serving_;
  changed_.notify_all();
  return true;
}

void MemoryBudget::release(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  free_ += bytes;
  changed_.notify_all();
}

void MemoryBudget::stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  changed_.notify_all();
}

std::shared_ptr<MemoryLease> MemoryLease::take(std::shared_ptr<MemoryBudget> budget,
                                               std::uint64_t bytes) {
  if (!budget->acquire(bytes)) {
    return nullptr;
  }
  return std::shared_ptr<MemoryLease>(new MemoryLease(std::move(budget), bytes));
}

MemoryLease::~MemoryLease() { budget_->release(bytes_); }

void MemoryLease::give_back(std::uint64_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    expects(bytes <= bytes_, "memory given back that was not taken");
    bytes_ -= bytes;
  }
  budget_->release(bytes);
}

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20U;
constexpr const char* kNothing = "nothing known";
constexpr std::uint64_t kAssumed = std::uint64_t{4} << 30U;
/// Version 1 says "no limit" by a number near 2^63, rounded down to pages.
constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 62U;

/// The number behind `name` in a file of lines "name number ...".
std::optional<std::uint64_t> number_in_file(const fs::path& path, std::string_view name) {
  std::ifstream file(path);
  for (std::string word, value; file >> word >> value; std::getline(file, word)) {
    if (word == name) {
      return parsed_number(value);
    }
  }
  return std::nullopt;
}

/// How a version of control groups names things.
struct Controller {
  std::vector<const char*> limits;
  const char* usage;
  const char* reclaimable;  ///< in memory.stat
  const char* ancestors;    ///< least limit of groups that may not be visible, in memory.stat
};
const Controller& version_1() {
  static const Controller controller = {{"memory.limit_in_bytes"},
                                        "memory.usage_in_bytes",
                                        "total_inactive_file",
                                        "hierarchical_memory_limit"};
  return controller;
}
const Controller& version_2() {
  static const Controller controller = {
      {"memory.max", "memory.high"}, "memory.current", "inactive_file", nullptr};
  return controller;
}

/// Adds the limits of the group whose files lie in `folder`.
void add_group(const fs::path& folder, const Controller& controller,
               std::vector<MemoryLimit>& limits) {
  const fs::path statistics = folder / "memory.stat";
  const std::uint64_t usage = number_in(folder / controller.usage).value_or(0);
  const std::uint64_t reclaimable = number_in_file(statistics, controller.reclaimable).value_or(0);
  const std::uint64_t used = usage - std::min(usage, reclaimable);
  const auto add = [&](const char* name, const fs::path& file, std::optional<std::uint64_t> most) {
    if (most && *most < kNoLimit) {
      limits.push_back({name, file.string(), *most - std::min(*most, used)});
    }
  };
  for (const char* name : controller.limits) {
    add(name, folder / name, number_in(folder / name));
  }
  if (controller.ancestors != nullptr) {
    add(controller.ancestors, statistics, number_in_file(statistics, controller.ancestors));
  }
}

/// Bytes that Slurm grants on this node: nothing where it says nothing, 0 for all of the node.
std::optional<std::uint64_t> slurm_mebibytes(const std::string& name, const std::string& text,
                                             std::vector<std::string>& warnings) {
  if (text.empty()) {
    return std::nullopt;
  }
  const auto value = parsed_number(text);
  if (!value) {
    warnings.push_back(
        fmt::format("{} is `{}`, no whole number: passed over", name, printable(text)));
  }
  return value;
}

}  // namespace

std::vector<MemoryLimit> system_memory_limits(const std::string& folder) {
  const fs::path root(folder);
  std::vector<MemoryLimit> limits;
  const fs::path meminfo = root / "proc/meminfo";
  if (const auto kib = number_in_file(meminfo, "MemAvailable:")) {
    if (const auto bytes = checked_multiply(*kib, std::uint64_t{1024})) {
      limits.push_back({"MemAvailable", meminfo.string(), *bytes});
    }
  }
  for (const ControlGroup& group : control_groups(folder, "memory")) {
    add_group(group.folder, group.is_version_2 ? version_2() : version_1(), limits);
  }
  return limits;
}

std::string RamBudget::source_text() const {
  return limit.source.starts_with("--") || limit.source == kNothing
             ? limit.source
             : fmt::format("three quarters of what {} leaves", limit.source);
}

RamBudget default_ram_budget(std::vector<MemoryLimit> limits, const SlurmVariables& slurm) {
  RamBudget budget;
  const auto grant = [&](const char* source, std::optional<std::uint64_t> mebibytes,
                         std::uint64_t times) {
    if (!mebibytes || *mebibytes == 0) {
      return;
    }
    const auto all = checked_multiply(*mebibytes, times);
    const auto bytes = all ? checked_multiply(*all, kMiB) : std::nullopt;
    if (bytes) {
      limits.push_back({source, "", *bytes});
    } else {
      budget.warnings.push_back(
          fmt::format("{} is {} MiB, which is not a size: passed over", source, *mebibytes));
    }
  };
  grant("SLURM_MEM_PER_NODE",
        slurm_mebibytes("SLURM_MEM_PER_NODE", slurm.mem_per_node, budget.warnings), 1);
  const auto per_cpu = slurm_mebibytes("SLURM_MEM_PER_CPU", slurm.mem_per_cpu, budget.warnings);
  if (per_cpu && *per_cpu > 0) {
    const auto cpus = slurm_mebibytes("SLURM_CPUS_ON_NODE", slurm.cpus_on_node, budget.warnings);
    if (cpus && *cpus > 0) {
      grant("SLURM_MEM_PER_CPU", per_cpu, *cpus);
    } else {
      budget.warnings.push_back(
          "SLURM_MEM_PER_CPU without SLURM_CPUS_ON_NODE says nothing of this node: passed over");
    }
  }
  const auto least =
      std::min_element(limits.begin(), limits.end(),
                       [](const MemoryLimit& a, const MemoryLimit& b) { return a.left < b.left; });
  budget.limit = least == limits.end() ? MemoryLimit{kNothing, "", kAssumed} : *least;
  budget.bytes = budget.limit.left / 4 * 3;
  return budget;
}

}  // namespace vindex::engine
