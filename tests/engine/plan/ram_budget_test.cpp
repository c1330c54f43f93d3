// The default budget: from folders that stand for /proc and /sys, and from Slurm's variables.
#include "engine/plan/memory_budget.hpp"
#include "tests/support/temporary_folder.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

namespace vindex::engine::ram_budget_test {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30U;

class RamBudgetTest : public ::testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = std::filesystem::path(folder_.path()) / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  static std::string gib(double value) {
    return std::to_string(static_cast<std::uint64_t>(value * static_cast<double>(kGiB))) + "\n";
  }
  void machine(std::uint64_t available_gib) {
    write("proc/meminfo", "MemTotal:       99999999 kB\nMemFree:        1 kB\nMemAvailable:   " +
                              std::to_string(available_gib * (kGiB / 1024)) + " kB\n");
  }
  RamBudget budget(const SlurmVariables& slurm = {}) {
    return default_ram_budget(system_memory_limits(folder_.path()), slurm);
  }
  /// Three quarters of `gib`, because of `source`.
  void expect(const RamBudget& found, double gib, const std::string& source,
              const std::string& where = "") {
    EXPECT_EQ(found.bytes, static_cast<std::uint64_t>(gib * 0.75 * static_cast<double>(kGiB)));
    EXPECT_EQ(found.limit.source, source);
    EXPECT_TRUE(found.limit.where.ends_with(where)) << found.limit.where;
  }
  testing::TemporaryFolder folder_;
};

TEST_F(RamBudgetTest, WithoutGroupsTheMachineDecides) {
  machine(8);
  expect(budget(), 8, "MemAvailable", "proc/meminfo");
  EXPECT_TRUE(budget().warnings.empty());
}

TEST_F(RamBudgetTest, OfNestedGroupsTheLeastRoomCounts) {
  machine(64);
  write("proc/self/cgroup", "0::/slurm/job_7/step_0\n");
  write("sys/fs/cgroup/slurm/memory.max", "max\n");
  write("sys/fs/cgroup/slurm/job_7/memory.max", gib(16));
  write("sys/fs/cgroup/slurm/job_7/memory.current", gib(6));
  write("sys/fs/cgroup/slurm/job_7/memory.stat", "anon 5\ninactive_file " + gib(2) + "file 9\n");
  write("sys/fs/cgroup/slurm/job_7/step_0/memory.max", gib(32));
  expect(budget(), 12, "memory.max", "slurm/job_7/memory.max");
  write("sys/fs/cgroup/slurm/job_7/step_0/memory.high", gib(9));
  expect(budget(), 9, "memory.high", "step_0/memory.high");
  write("sys/fs/cgroup/memory.max", gib(4));  // a container's own group, mounted as the root
  expect(budget(), 4, "memory.max", "cgroup/memory.max");
}

TEST_F(RamBudgetTest, VersionOneHasItsOwnNames) {
  machine(64);
  write("proc/self/cgroup",
        "12:cpu,cpuacct:/other\n4:hugetlb,memory:/slurm/uid_0/job_7\n0::/unified\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  const std::string job = "sys/fs/cgroup/memory/slurm/uid_0/job_7/";
  write(job + "memory.limit_in_bytes", gib(10));
  write(job + "memory.usage_in_bytes", gib(3));
  write(job + "memory.stat", "cache 1\ntotal_inactive_file " + gib(1));
  expect(budget(), 8, "memory.limit_in_bytes", job + "memory.limit_in_bytes");
  // A group above that cannot be seen from here.
  write(job + "memory.stat", "hierarchical_memory_limit " + gib(5) + "total_inactive_file 0\n");
  expect(budget(), 2, "hierarchical_memory_limit", "memory.stat");
  write("sys/fs/cgroup/other/memory.max", gib(1));
  expect(budget(), 2, "hierarchical_memory_limit");
  write("sys/fs/cgroup/unified/unified/memory.max", gib(1));
  expect(budget(), 1, "memory.max", "unified/unified/memory.max");
}

TEST_F(RamBudgetTest, WhatIsUsedUpLeavesNothing) {
  machine(64);
  write("proc/self/cgroup", "0::/\n");
  write("sys/fs/cgroup/memory.max", gib(2));
  write("sys/fs/cgroup/memory.current", gib(3));
  EXPECT_EQ(budget().bytes, 0U);
}

TEST_F(RamBudgetTest, FilesThatCannotBeReadAreNoLimits) {
  EXPECT_EQ(budget().bytes, 3 * kGiB);
  EXPECT_EQ(budget().limit.source, "nothing known");
  machine(8);
  write("proc/self/cgroup", "nonsense\n0::/../../elsewhere\n0::\n1:memory\n3:memory:/a\n");
  write("sys/fs/cgroup/memory.max", "max\n");
  write("sys/fs/cgroup/memory.high", "many\n");
  write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "");
  std::filesystem::create_directories(std::filesystem::path(folder_.path()) /
                                      "sys/fs/cgroup/memory/memory.limit_in_bytes");
  expect(budget(), 8, "MemAvailable");
}

TEST_F(RamBudgetTest, SlurmGrantsMebibytes) {
  machine(64);
  expect(budget({.mem_per_node = "32768"}), 32, "SLURM_MEM_PER_NODE");
  expect(budget({.mem_per_cpu = "2048", .cpus_on_node = "8"}), 16, "SLURM_MEM_PER_CPU");
  expect(budget({.mem_per_node = "1048576"}), 64, "MemAvailable");
  expect(budget({.mem_per_node = "0"}), 64, "MemAvailable");
  expect(budget({.mem_per_cpu = "0", .cpus_on_node = "8"}), 64, "MemAvailable");
  EXPECT_TRUE(budget({.mem_per_node = "0"}).warnings.empty());
}

TEST_F(RamBudgetTest, SlurmVariablesThatSayNothingAreToldAndPassedOver) {
  machine(8);
  for (const SlurmVariables& slurm :
       {SlurmVariables{.mem_per_node = "4G"}, SlurmVariables{.mem_per_node = "-1"},
        SlurmVariables{.mem_per_node = "99999999999999999999"},
        SlurmVariables{.mem_per_node = "18446744073709551615"},
        SlurmVariables{.mem_per_cpu = "512"},
        SlurmVariables{.mem_per_cpu = "x", .cpus_on_node = "2"},
        SlurmVariables{.mem_per_cpu = "512", .cpus_on_node = "0"}}) {
    const RamBudget found = budget(slurm);
    expect(found, 8, "MemAvailable");
    ASSERT_EQ(found.warnings.size(), 1U) << slurm.mem_per_node << slurm.mem_per_cpu;
    EXPECT_NE(found.warnings[0].find("passed over"), std::string::npos);
    EXPECT_NE(found.warnings[0].find("SLURM_MEM_PER_"), std::string::npos);
  }
  EXPECT_EQ(budget({.mem_per_cpu = "512", .cpus_on_node = "2(x3)"}).warnings.size(), 2U);
}

TEST(SystemMemoryTest, ThisMachineLeavesSomething) {
  const RamBudget budget = default_ram_budget(system_memory_limits(), {});
  EXPECT_GT(budget.bytes, std::uint64_t{16} << 20U);
  EXPECT_NE(budget.limit.source, "nothing known");
}

}  // namespace
}  // namespace vindex::engine::ram_budget_test
