#include "support/temporary_folder.hpp"

#include <vindex/core/error.hpp>
#include <vindex/core/output_target.hpp>
#include <vindex/core/standard_output.hpp>

#include <gtest/gtest.h>

#include <cerrno>

namespace vindex {
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
  EXPECT_EQ(id_of(folder.path(), false), "free");  // whoever opens it says that it is a folder
  for (const std::string text : {"", "a,b\n", "\x89HDF\r\n\x1a"}) {
    const std::string path = folder.write("file", text);
    EXPECT_EQ(id_of(path, false), "E-OUTPUT-EXISTS");
    EXPECT_EQ(id_of(path, true), "free");
  }
  const std::string results = folder.write("results", "\x89HDF\r\n\x1a\n...");
  EXPECT_EQ(id_of(results, false), "E-OUTPUT-RESULTS");
  EXPECT_EQ(id_of(results, true), "E-OUTPUT-RESULTS");
}

TEST(StandardOutputTest, OnlyAReaderThatHasGoneEndsQuietly) {
  EXPECT_TRUE(is_closed_output(SystemError("E-STDOUT", EPIPE, "x")));
  EXPECT_FALSE(is_closed_output(SystemError("E-STDOUT", ENOSPC, "x")));
  EXPECT_FALSE(is_closed_output(SystemError("E-WRITE", EPIPE, "x")));
  EXPECT_FALSE(is_closed_output(UsageError("E-STDOUT", "x")));
}

}  // namespace
}  // namespace vindex
