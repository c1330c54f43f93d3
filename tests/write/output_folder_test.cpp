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
    OutputFolder folder(scratch / "new/inner");
    folder.write_text("a", "text");
    EXPECT_EQ(names_in(scratch / "new/inner").size(), 1U);
    EXPECT_FALSE(fs::exists(scratch / "new/inner/a"));
  }
  EXPECT_FALSE(fs::exists(scratch / "new/inner"));
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

TEST(OutputFolder, AFileThatSomebodyElseMadeIsKept) {
  const TemporaryFolder scratch;
  {
    OutputFolder folder(scratch / "m");
    scratch.write("m/a", "theirs");
    EXPECT_EQ(testing::error_of([&] { folder.create("a"); }), "E-OUTPUT-EXISTS");
  }
  EXPECT_EQ(file_text(scratch / "m/a"), "theirs");
}

}  // namespace
}  // namespace vindex::write
