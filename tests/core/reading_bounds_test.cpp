// A process that may read beneath some folders alone: whatever leads out is refused, however it
// does.
#include "core/files/reading_bounds.hpp"

#include "core/files/small_file.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/temporary_folder.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace vindex::reading_bounds_test {
namespace {

namespace fs = std::filesystem;

/// The parameter: whether files are opened component by component.
class ReadingBoundsTest : public ::testing::TestWithParam<bool> {
 protected:
  ReadingBoundsTest() {
    folder_.write("models/sub/in.txt", "inside");
    folder_.write("more/in.txt", "more");
    folder_.write("models-else/out.txt", "outside");
    folder_.write("out/out.txt", "outside");
  }
  ~ReadingBoundsTest() override { testing::forget_reading_bounds(); }
  void bound() const {
    read_only_beneath({folder_ / "models", folder_ / "more"});
    testing::open_by_components(GetParam());
  }
  /// What the file holds; "-N" for errno N, "E-... CODE" for an error.
  std::string read(const std::string& path) const {
    std::string text;
    const std::string error = testing::outcome_of([&] {
      const int descriptor = open_to_read(path, O_NONBLOCK);
      if (descriptor < 0) {
        text = "-" + std::to_string(errno);
        return;
      }
      ::close(descriptor);
      text = read_small_input(path);
    });
    return error.empty() ? text : error;
  }
  testing::TemporaryFolder folder_;
};

TEST_P(ReadingBoundsTest, WhatLiesBeneathIsRead) {
  fs::create_symlink("sub/in.txt", folder_ / "models/relative");
  fs::create_symlink(folder_ / "models/sub/in.txt", folder_ / "models/absolute");
  fs::create_symlink("../more/in.txt", folder_ / "models/other_root");
  fs::create_directory_symlink("sub", folder_ / "models/folder");
  fs::create_directory_symlink(folder_ / "models", folder_ / "way_in");
  bound();
  for (const char* path :
       {"models/sub/in.txt", "models/sub/../sub/in.txt", "models/relative", "models/absolute",
        "models/folder/in.txt", "way_in/sub/in.txt", "out/../models/sub/in.txt"}) {
    EXPECT_EQ(read(folder_ / path), "inside") << path;
  }
  EXPECT_EQ(read(folder_ / "models/other_root"), "more");
  EXPECT_EQ(read(folder_ / "models/absent"), "-" + std::to_string(ENOENT));
  EXPECT_NO_THROW(expect_readable_place(folder_ / "models"));
  EXPECT_NO_THROW(expect_readable_place(folder_ / "models/absent"));
}

TEST_P(ReadingBoundsTest, WhatLeadsOutIsRefused) {
  fs::create_symlink("../out/out.txt", folder_ / "models/relative");
  fs::create_symlink(folder_ / "out/out.txt", folder_ / "models/absolute");
  fs::create_directory_symlink("../out", folder_ / "models/folder");
  fs::create_symlink("relative", folder_ / "models/twice");
  fs::create_symlink("/proc/self/exe", folder_ / "models/magic");
  bound();
  for (const char* path :
       {"models/relative", "models/absolute", "models/folder/out.txt", "models/twice",
        "models/magic", "models/../out/out.txt", "models/sub/../../out/out.txt", "out/out.txt",
        "models-else/out.txt", "models/folder", "out"}) {
    EXPECT_EQ(read(folder_ / path), "E-READ-OUTSIDE 77") << path;
    EXPECT_EQ(testing::outcome_of([&] { expect_readable_place(folder_ / path); }),
              "E-READ-OUTSIDE 77")
        << path;
  }
  EXPECT_EQ(read("/etc/passwd"), "E-READ-OUTSIDE 77");
  const std::string message =
      testing::message_of([&] { (void)open_to_read(folder_ / "models/relative"); });
  EXPECT_EQ(message.find("out.txt"), std::string::npos) << "nor is it said where it leads";
}

TEST_P(ReadingBoundsTest, NoRootIsNothingToRead) {
  read_only_beneath({});
  EXPECT_EQ(read(folder_ / "models/sub/in.txt"), "E-READ-OUTSIDE 77");
}

INSTANTIATE_TEST_SUITE_P(Ways, ReadingBoundsTest, ::testing::Values(false, true),
                         [](const auto& way) { return way.param ? "components" : "openat2"; });

TEST(ReadingBounds, AreNotThereByThemselves) {
  const testing::TemporaryFolder folder;
  EXPECT_FALSE(reading_is_bounded());
  EXPECT_EQ(read_small_input(folder.write("a", "text")), "text");
  EXPECT_EQ(read_small_input(folder / "a", 2), "te");
  EXPECT_EQ(read_small_input(folder / "absent"), "");
}

TEST(ReadingBounds, ARootIsAFolderAndNamedWhole) {
  const testing::TemporaryFolder folder;
  folder.write("file", "text");
  for (const std::string& root : {folder / "absent", folder / "file", std::string("relative")}) {
    EXPECT_EQ(testing::outcome_of([&] { read_only_beneath({root}); }), "E-READ-BOUNDS 78") << root;
    testing::forget_reading_bounds();
  }
}

}  // namespace
}  // namespace vindex::reading_bounds_test
