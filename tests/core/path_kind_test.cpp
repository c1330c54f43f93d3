// What lies at a path, links and unreadable folders included.
#include "core/files/path_kind.hpp"

#include "tests/support/expect_error.hpp"
#include "tests/support/temporary_folder.hpp"
#include <vindex/error.hpp>

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

namespace vindex::path_kind_test {
namespace {

namespace fs = std::filesystem;

TEST(PathKindTest, LinksAreFollowedAndWhatLeadsNowhereIsAbsent) {
  const testing::TemporaryFolder folder;
  const std::string file = folder.write("file", "x");
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  fs::create_symlink("file", folder / "to_file");
  fs::create_symlink("nothing", folder / "to_nothing");
  fs::create_symlink("circle", folder / "circle");
  EXPECT_EQ(path_kind(file), PathKind::kFile);
  EXPECT_EQ(path_kind(folder / "to_file"), PathKind::kFile);
  EXPECT_EQ(path_kind(folder.path()), PathKind::kFolder);
  EXPECT_EQ(path_kind(folder / "pipe"), PathKind::kOther);
  for (const std::string& absent :
       {std::string(), folder / "no", folder / "to_nothing", folder / "circle", file + "/below",
        folder / std::string(300, 'x')}) {
    EXPECT_EQ(path_kind(absent), PathKind::kAbsent) << absent;
  }
}

TEST(PathKindTest, OneFileHasManyPaths) {
  const testing::TemporaryFolder folder;
  const std::string file = folder.write("file", "x");
  const std::string other = folder.write("other", "x");
  fs::create_symlink("file", folder / "link");
  EXPECT_TRUE(is_same_file(file, folder / "link"));
  EXPECT_TRUE(is_same_file(file, folder / "./file"));
  EXPECT_FALSE(is_same_file(file, other));
  EXPECT_FALSE(is_same_file(file, folder / "absent"));
  EXPECT_FALSE(is_same_file(folder / "absent", folder / "absent"));
}

TEST(PathKindTest, WhatMayNotBeLookedAtIsNotAbsent) {
  if (::geteuid() == 0) {
    GTEST_SKIP() << "root may look everywhere";
  }
  const testing::TemporaryFolder folder;
  fs::create_directory(folder / "closed");
  const std::string inside = folder.write("closed/file", "x");
  fs::permissions(folder / "closed", fs::perms::none);
  EXPECT_EQ(testing::error_of([&] { (void)path_kind(inside); }), "E-OPEN");
  fs::permissions(folder / "closed", fs::perms::owner_all);
}

}  // namespace
}  // namespace vindex::path_kind_test
