// CPU quotas of control groups, from folders that stand for /proc and /sys.
#include "core/process/control_groups.hpp"

#include "tests/support/temporary_folder.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace vindex::control_groups_test {
namespace {

class ControlGroupsTest : public ::testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = std::filesystem::path(folder_.path()) / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  std::optional<std::int32_t> cores() { return quota_cores(folder_.path()); }

  testing::TemporaryFolder folder_;
};

TEST_F(ControlGroupsTest, NothingSaysNothing) {
  EXPECT_EQ(cores(), std::nullopt);
  write("proc/self/cgroup", "0::/job\nrubbish\n");
  EXPECT_EQ(cores(), std::nullopt);
  write("sys/fs/cgroup/job/cpu.max", "max 100000\n");
  EXPECT_EQ(cores(), std::nullopt);
  write("sys/fs/cgroup/job/cpu.max", "100000 0\n");
  EXPECT_EQ(cores(), std::nullopt);
}

TEST_F(ControlGroupsTest, QuotasOfVersion2AreRoundedUpAndTheLeastCounts) {
  write("proc/self/cgroup", "0::/slice/job/step\n");
  write("sys/fs/cgroup/slice/job/step/cpu.max", "150000 100000\n");
  EXPECT_EQ(cores(), 2);
  write("sys/fs/cgroup/slice/job/cpu.max", "600000 100000\n");
  EXPECT_EQ(cores(), 2);
  write("sys/fs/cgroup/slice/cpu.max", "20000 100000\n");
  EXPECT_EQ(cores(), 1) << "less than one core is one";
  write("sys/fs/cgroup/other/cpu.max", "1000 100000\n");
  EXPECT_EQ(cores(), 1);
}

TEST_F(ControlGroupsTest, InAContainerTheMountedFolderIsTheGroup) {
  write("proc/self/cgroup", "0::/../../host/path\n");
  write("sys/fs/cgroup/cpu.max", "300000 100000\n");
  EXPECT_EQ(cores(), 3);
}

TEST_F(ControlGroupsTest, QuotasOfVersion1UnderEitherName) {
  write("proc/self/cgroup", "4:memory:/job\n3:cpu,cpuacct:/job\n1:name=systemd:/job\n");
  write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "250000\n");
  write("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cores(), 3);
  write("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "-1\n");
  write("sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cores(), std::nullopt);
  write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "400000\n");
  write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cores(), 4);
}

}  // namespace
}  // namespace vindex::control_groups_test
