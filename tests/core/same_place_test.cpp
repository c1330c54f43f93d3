// Whether two spellings name one place, there yet or not.
#include "core/files/path_kind.hpp"
#include "tests/support/temporary_folder.hpp"

#include <gtest/gtest.h>

#include <filesystem>

namespace vindex::same_place_test {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryFolder;

TEST(SamePlace, IsAskedOfFilesAndNotOfSpellings) {
  const TemporaryFolder scratch;
  scratch.write("there/a", "1");
  scratch.write("there/b", "1");
  fs::create_directory_symlink(scratch / "there", scratch / "link");
  fs::create_symlink(scratch / "there/a", scratch / "alias");
  fs::create_hard_link(scratch / "there/a", scratch / "hard");
  const std::string a = scratch / "there/a";
  for (const std::string other :
       {"there/a", "./there//a", "there/../there/a", "link/a", "alias", "hard"}) {
    EXPECT_TRUE(is_same_place(a, scratch / other)) << other;
  }
  for (const std::string other : {"there/b", "there", "a", "link/b", "link/c"}) {
    EXPECT_FALSE(is_same_place(a, scratch / other)) << other;
  }
}

TEST(SamePlace, IsAskedOfWhatIsNotThereYet) {
  const TemporaryFolder scratch;
  fs::create_directory(scratch / "there");
  fs::create_directory_symlink(scratch / "there", scratch / "link");
  fs::create_symlink(scratch / "nowhere", scratch / "dangling");
  const std::string fresh = scratch / "there/o";
  for (const std::string other : {"there/o", "there/./o", "link/o", "there/o/", "there//o"}) {
    EXPECT_TRUE(is_same_place(fresh, scratch / other)) << other;
  }
  EXPECT_TRUE(is_same_place(scratch / "x/y/o", scratch / "x/y/../y/o"));
  EXPECT_TRUE(is_same_place(scratch / "dangling", scratch / "dangling"));
  for (const std::string other : {"o", "there/p", "there", "link", "x/there/o", "there/o/o"}) {
    EXPECT_FALSE(is_same_place(fresh, scratch / other)) << other;
  }
}

TEST(SamePlace, AFolderHoldsWhatIsNamedBelowIt) {
  const TemporaryFolder scratch;
  fs::create_directory(scratch / "there");
  fs::create_directory_symlink(scratch / "there", scratch / "link");
  for (const std::string inner : {"there", "there/a", "link/a", "there/a/b", "there/../there/x"}) {
    EXPECT_TRUE(is_within(scratch / "there", scratch / inner)) << inner;
  }
  EXPECT_TRUE(is_within(scratch / "new", scratch / "new/a"));
  EXPECT_TRUE(is_within("/", "x"));
  EXPECT_TRUE(is_within(".", "x"));
  for (const std::string outer : {"a", "there2", "there/../a", "link/../a"}) {
    EXPECT_FALSE(is_within(scratch / "there", scratch / outer)) << outer;
  }
}

}  // namespace
}  // namespace vindex::same_place_test
