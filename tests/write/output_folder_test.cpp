#include "support/expect_error.hpp"
#include "support/file_content.hpp"
#include "support/temporary_folder.hpp"

#include <vindex/core/process_name.hpp>
#include <vindex/write/output_folder.hpp>

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

namespace vindex::write {
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
    scratch.write("there/a", "theirs");
    EXPECT_EQ(testing::error_of([&] { folder.create("a"); }), "E-OUTPUT-EXISTS");
  }
  EXPECT_EQ(file_text(scratch / "there/a"), "theirs");
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

}  // namespace
}  // namespace vindex::write
