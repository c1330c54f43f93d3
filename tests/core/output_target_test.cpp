// Which outputs are refused: files that are there, measurements, devices, inputs and places within
// them.
#include "core/files/output_target.hpp"

#include "core/files/atomic_file.hpp"
#include "core/files/output_sink.hpp"
#include "core/files/path_kind.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/temporary_folder.hpp"
#include <vindex/error.hpp>

#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <vector>

namespace vindex::output_target_test {
namespace {

std::string id_of(const std::string& path, bool replace) {
  try {
    require_free_target(path, replace);
  } catch (const OutputError& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::kCannotCreate);
    return error.id();
  }
  return "free";
}

TEST(OutputTargetTest, AFileIsReplacedOnlyOnRequestAndMeasurementsNever) {
  const testing::TemporaryFolder folder;
  EXPECT_EQ(id_of(folder / "absent", false), "free");
  EXPECT_EQ(id_of(folder.path(), true), "E-OUTPUT-NOT-A-FILE");
  EXPECT_EQ(id_of("", true), "E-OUTPUT-NOT-A-FILE");
  for (const std::string text : {"", "a,b\n", "\x89HDF\r\n\x1a"}) {
    const std::string path = folder.write("file", text);
    EXPECT_EQ(id_of(path, false), "E-OUTPUT-EXISTS");
    EXPECT_EQ(id_of(path, true), "free");
  }
  const std::string results = folder.write("results", "\x89HDF\r\n\x1a\n...");
  EXPECT_EQ(id_of(results, false), "E-OUTPUT-RESULTS");
  EXPECT_EQ(id_of(results, true), "E-OUTPUT-RESULTS");
}

TEST(OutputTargetTest, APipeOrDeviceIsNeverReplaced) {
  const testing::TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  std::filesystem::create_symlink("pipe", folder / "link");
  for (const char* name : {"pipe", "link"}) {
    EXPECT_EQ(id_of(folder / name, true), "E-OUTPUT-NOT-A-FILE");
    EXPECT_EQ(testing::error_of([&] { AtomicFile(folder / name, {.create = "E-A"}); }), "E-A");
  }
  if (::mknod((folder / "null").c_str(), S_IFCHR | 0600, makedev(1, 3)) == 0) {  // as root alone
    EXPECT_EQ(id_of(folder / "null", true), "E-OUTPUT-NOT-A-FILE");
    EXPECT_EQ(testing::error_of([&] { AtomicFile(folder / "null", {.create = "E-A"}); }), "E-A");
  }
}

TEST(OutputTargetTest, WhatComesWhileAFileIsWrittenIsNotReplacedEither) {
  const testing::TemporaryFolder folder;
  AtomicFile file(folder / "a", {.rename = "E-R"});
  ASSERT_EQ(::mkfifo((folder / "a").c_str(), 0600), 0);
  EXPECT_EQ(testing::error_of([&] { file.publish(); }), "E-R");
  EXPECT_EQ(path_kind(folder / "a"), PathKind::kOther);
}

TEST(OutputTargetTest, InputsAreKnownByWhatTheyAre) {
  const testing::TemporaryFolder folder;
  const std::string input = folder.write("in/a", "x");
  std::filesystem::create_symlink("in", folder / "way");
  std::filesystem::create_hard_link(input, folder / "twin");
  folder.write("b", "y");
  const std::vector<std::string> inputs = {"", folder / "absent", input};
  for (const char* name : {"in/a", "way/a", "in/../way/./a", "twin"}) {
    const std::vector<std::string> targets = {folder / "b", folder / name};
    EXPECT_EQ(testing::error_of([&] { require_no_input(targets, inputs); }), "E-OUTPUT-SOURCE");
  }
  const std::vector<std::string> others = {"", folder / "b", folder / "new"};
  require_no_input(others, inputs);
}

TEST(StandardOutputTest, OnlyAReaderThatHasGoneEndsQuietly) {
  EXPECT_TRUE(is_closed_output(SystemError("E-STDOUT", EPIPE, "x")));
  EXPECT_FALSE(is_closed_output(SystemError("E-STDOUT", ENOSPC, "x")));
  EXPECT_FALSE(is_closed_output(SystemError("E-WRITE", EPIPE, "x")));
  EXPECT_FALSE(is_closed_output(UsageError("E-STDOUT", "x")));
}

TEST(OutputTargetTest, NothingIsWrittenIntoAFolderThatIsRead) {
  const testing::TemporaryFolder folder;
  folder.write("organs/manifest.json", "{}");
  folder.write("organs/embed/a.gguf", "x");
  std::filesystem::create_directory_symlink("organs/embed", folder / "link");
  const std::vector<std::string> inputs = {folder / "organs"};
  for (const char* name : {"organs/new.gguf", "organs/embed/new.gguf", "link/new.gguf",
                           "organs/embed/../not/there/yet.gguf"}) {
    const std::vector<std::string> target = {folder / name};
    EXPECT_EQ(testing::error_of([&] { require_no_input(target, inputs); }), "E-OUTPUT-SOURCE")
        << name;
  }
  const std::vector<std::string> beside = {folder / "new.gguf", folder / "organs2/new.gguf"};
  require_no_input(beside, inputs);
}

}  // namespace
}  // namespace vindex::output_target_test
