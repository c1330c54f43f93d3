// Folders that appear as a whole: what a kill leaves, and what somebody else made meanwhile.
#include "write/output_folder.hpp"

#include "core/files/path_kind.hpp"
#include "core/files/process_name.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/file_content.hpp"
#include "tests/support/temporary_folder.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace vindex::write::output_folder_test {
namespace {

namespace fs = std::filesystem;
using testing::file_text;
using testing::names_in;
using testing::TemporaryFolder;

TEST(OutputFolder, NothingStaysWithoutPublish) {
  const TemporaryFolder scratch;
  {
    OutputFolder folder(scratch / "new/inner/m/");
    folder.write_text("a", "text");
    folder.create("deep/b");
    EXPECT_FALSE(fs::exists(scratch / "new/inner/m"));
    const std::vector<std::string> names = names_in(scratch / "new/inner");
    ASSERT_EQ(names.size(), 1U);
    EXPECT_TRUE(names[0].starts_with("m.tmp.")) << names[0];
  }
  EXPECT_TRUE(fs::is_empty(scratch.path()));
  fs::create_directory(scratch / "there");
  { OutputFolder(scratch / "there").write_text("a", "text"); }
  EXPECT_TRUE(fs::is_empty(scratch / "there"));
}

TEST(OutputFolder, PublishesEveryFileUnderItsName) {
  const TemporaryFolder scratch;
  {
    OutputFolder folder(scratch / "m");
    folder.write_text("a", "one");
    folder.write_text("b", "two");
    folder.publish();
  }
  EXPECT_EQ(file_text(scratch / "m/a"), "one");
  EXPECT_EQ(file_text(scratch / "m/b"), "two");
  EXPECT_EQ(std::distance(fs::directory_iterator(scratch / "m"), fs::directory_iterator()), 2);
}

TEST(OutputFolder, WhatAKilledProcessLeftIsNoContent) {
  const TemporaryFolder scratch;
  scratch.write("m/model.safetensors.tmp." + host_name() + ".999999999.0", "half");
  {
    OutputFolder folder(scratch / "m");
    folder.write_text("a", "one");
    folder.publish();
  }
  EXPECT_EQ(names_in(scratch / "m"), std::vector<std::string>{"a"});
  scratch.write("n/model.safetensors.tmp.elsewhere.12.0", "another machine's, and fresh");
  EXPECT_EQ(testing::error_of([&] { OutputFolder folder(scratch / "n"); }), "E-OUTPUT-NOT-EMPTY");
}

TEST(OutputFolder, WhatSomebodyElseMadeMeanwhileIsKept) {
  const TemporaryFolder scratch;
  fs::create_directory(scratch / "there");
  {
    OutputFolder folder(scratch / "there");
    folder.write_text("organs/b", "ours");
    folder.write_text("a", "ours");
    scratch.write("there/a", "theirs");
    EXPECT_EQ(testing::error_of([&] { folder.publish(); }), "E-OUTPUT-EXISTS");
  }
  EXPECT_EQ(file_text(scratch / "there/a"), "theirs");
  EXPECT_EQ(names_in(scratch / "there"), std::vector<std::string>{"a"});
  {
    OutputFolder folder(scratch / "m");
    folder.write_text("a", "ours");
    scratch.write("m/b", "theirs");
    EXPECT_EQ(testing::error_of([&] { folder.publish(); }), "E-OUTPUT-NOT-EMPTY");
  }
  EXPECT_EQ(names_in(scratch / "m"), std::vector<std::string>{"b"});
  EXPECT_EQ(names_in(scratch.path()), (std::vector<std::string>{"m", "there"}));
}

TEST(OutputFolder, TheFolderOfAKilledProcessGoesWithTheNextOne) {
  const TemporaryFolder scratch;
  const std::string dead = "m.tmp." + host_name() + ".999999999.0";
  scratch.write(dead + "/organs/a.bin", "whole");
  scratch.write(dead + "/config.json.tmp." + host_name() + ".999999999.1", "half");
  scratch.write("m.tmp.elsewhere.12.0/a", "another machine's, and fresh");
  {
    OutputFolder folder(scratch / "m");
    folder.write_text("a", "one");
    folder.publish();
  }
  EXPECT_EQ(names_in(scratch.path()), (std::vector<std::string>{"m", "m.tmp.elsewhere.12.0"}));
}

TEST(OutputFolder, AFolderThatIsThereAndEmptyIsKeptAndFilled) {
  const TemporaryFolder scratch;
  fs::create_directory(scratch / "m");
  fs::permissions(scratch / "m", fs::perms::owner_all);
  fs::create_symlink("m", scratch / "link");
  const auto before = file_identity(scratch / "m");
  {
    OutputFolder folder(scratch / "link/");
    folder.write_text("organs/a", "one");
    folder.write_text("b", "two");
    folder.publish();
  }
  EXPECT_EQ(file_identity(scratch / "m"), before);
  EXPECT_EQ(names_in(scratch / "m"), (std::vector<std::string>{"b", "organs"}));
  EXPECT_EQ(file_text(scratch / "m/organs/a"), "one");
}

/// Names in `parent` after a process was killed while it had a folder half written, and after the
/// next one wrote the same.
void expect_clean_after_kill(const TemporaryFolder& scratch, const std::string& target) {
  const auto fill = [&](bool is_killed) {
    OutputFolder folder(scratch / target);
    folder.write_text("organs/a", "one");
    folder.write_text("b", "two");
    if (is_killed) {
      ::_exit(0);  // no destructor runs
    }
    folder.publish();
  };
  const pid_t child = ::fork();
  if (child == 0) {
    fill(true);
  }
  ::waitpid(child, nullptr, 0);
  fill(false);
  EXPECT_EQ(names_in(scratch / target), (std::vector<std::string>{"b", "organs"}));
}

TEST(OutputFolder, TheNextOneRemovesWhatAKilledOneLeft) {
  const TemporaryFolder scratch;
  expect_clean_after_kill(scratch, "m");
  fs::create_directory(scratch / "there");
  expect_clean_after_kill(scratch, "there");
  EXPECT_EQ(names_in(scratch.path()), (std::vector<std::string>{"m", "there"}));
}

TEST(OutputFolder, AKillBetweenTwoMovesIsUndone) {
  const TemporaryFolder scratch;
  const std::string dead = "m/part.tmp." + host_name() + ".999999999.1.0";
  scratch.write(dead + "/b", "two");
  scratch.write("m/a", "one");
  scratch.write("m/organs/x", "three");
  const auto line = [&](const std::string& name) {
    struct stat status = {};
    EXPECT_EQ(::stat((scratch / name).c_str(), &status), 0);
    return std::to_string(status.st_ino) + " " + std::to_string(status.st_mtim.tv_sec) + "." +
           std::to_string(status.st_mtim.tv_nsec) + " " + name.substr(2) + "\n";
  };
  scratch.write(dead + "/.moves", line("m/a") + line("m/organs") + "1 2.3 b\n4 5.6 ../m\n");
  {
    OutputFolder folder(scratch / "m");
    folder.write_text("c", "new");
    folder.publish();
  }
  EXPECT_EQ(names_in(scratch / "m"), std::vector<std::string>{"c"});
  // A file of the same name that is another one is somebody's.
  scratch.write("n/a", "theirs");
  scratch.write("n/part.tmp." + host_name() + ".999999999.1.0/.moves", "1 2.3 a\n");
  EXPECT_EQ(testing::error_of([&] { OutputFolder folder(scratch / "n"); }), "E-OUTPUT-NOT-EMPTY");
  EXPECT_EQ(names_in(scratch / "n"), std::vector<std::string>{"a"});
}

}  // namespace
}  // namespace vindex::write::output_folder_test
