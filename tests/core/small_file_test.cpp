// Small files that others may have put there: read where they are files, and never waited for.
#include "core/files/small_file.hpp"

#include "tests/support/temporary_folder.hpp"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

namespace vindex::small_file_test {
namespace {

using testing::TemporaryFolder;

TEST(SmallFileTest, TextOfFilesAloneAndOfNothingThatWaits) {
  const TemporaryFolder folder;
  const std::string text(100'000, 'x');
  std::ofstream(folder / "file") << text;
  std::filesystem::create_symlink("file", folder / "link");
  EXPECT_EQ(read_small_file(folder / "file", 10), text.substr(0, 10));
  EXPECT_EQ(read_small_file(folder / "link", 1 << 20), text);
  EXPECT_EQ(small_file(folder / "file").kind, PathKind::kFile);
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(small_file(folder / "pipe").kind, PathKind::kOther);
  EXPECT_EQ(small_file("/dev/zero").kind, PathKind::kOther);
  EXPECT_EQ(small_file("/dev/zero").text, "");
  EXPECT_EQ(small_file(folder / ".").kind, PathKind::kFolder);
  EXPECT_EQ(small_file(folder / "absent").kind, PathKind::kAbsent);
  EXPECT_NE(read_small_file("/proc/self/stat"), "");  // of no size before it is read
}

TEST(SmallFileTest, AHardLinkIsNoFileOfOnesOwn) {
  const TemporaryFolder folder;
  std::ofstream(folder / "file") << "text";
  const int descriptor = ::open((folder / "file").c_str(), O_RDONLY);
  ASSERT_GE(descriptor, 0);
  EXPECT_TRUE(is_own_file(descriptor));
  std::filesystem::create_hard_link(folder / "file", folder / "other");
  EXPECT_FALSE(is_own_file(descriptor));
  ::close(descriptor);
}

}  // namespace
}  // namespace vindex::small_file_test
