// The command report: what it says, refuses and leaves.
#include "tests/results/sample_run.hpp"
#include "tests/support/program/program.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace vindex::testing::report_cli_test {
namespace {

using results::testing::sample_run;
using results::testing::TestFolder;
using results::testing::write_sample;

class ReportCli : public ::testing::Test {
 protected:
  void SetUp() override { write_sample(file_, sample_run()); }
  ProgramResult run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "report");
    return RunningProgram(VINDEX_PROGRAM, arguments, folder_ / "said").finish();
  }
  TestFolder folder_;
  std::string file_ = folder_ / "out.h5";
  std::string page_ = folder_ / "page.html";
};

TEST_F(ReportCli, WritesAPageAndSaysItsSize) {
  const ProgramResult result = run({file_, "-o", page_});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_NE(result.err.find("page.html: "), std::string::npos) << result.err;
  EXPECT_EQ(file_text(page_).rfind("<!doctype html>", 0), 0U);
  EXPECT_EQ(run({file_, "-o", page_, "--force", "-q"}).err, "");
}

TEST_F(ReportCli, TheSameFileMakesTheSamePage) {
  run({file_, "-o", page_});
  const ProgramResult again = run({file_, "-o", "-"});
  EXPECT_EQ(again.exit_code, 0);
  EXPECT_EQ(again.err, "");
  EXPECT_EQ(again.out, file_text(page_));
}

TEST_F(ReportCli, ReplacesNothingUnasked) {
  std::ofstream(page_) << "mine";
  const ProgramResult refused = run({file_, "-o", page_});
  EXPECT_EQ(refused.exit_code, 73);
  EXPECT_NE(refused.err.find("E-OUTPUT-EXISTS"), std::string::npos);
  EXPECT_EQ(file_text(page_), "mine");
  EXPECT_EQ(run({file_, "-o", page_, "--force"}).exit_code, 0);
  EXPECT_NE(file_text(page_), "mine");
  const std::string before = file_text(file_);
  EXPECT_EQ(run({file_, "-o", file_, "--force"}).exit_code, 73);
  EXPECT_EQ(file_text(file_), before);
}

TEST_F(ReportCli, RefusalsHaveOneLineAndLeaveNothing) {
  std::ofstream(folder_ / "foreign.h5") << "text";
  const struct {
    std::vector<std::string> arguments;
    int code;
  } cases[] = {
      {{folder_ / "absent.h5", "-o", page_}, 66},
      {{folder_ / "foreign.h5", "-o", page_}, 65},
      {{file_, file_, "-o", page_}, 64},
      {{file_}, 64},
      {{"-o", page_}, 64},
      {{file_, "-o", folder_ / "no/such/page.html"}, 73},
      {{file_, "-o", folder_.path()}, 73},
  };
  for (const auto& one : cases) {
    const ProgramResult result = run(one.arguments);
    EXPECT_EQ(result.exit_code, one.code) << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_FALSE(std::filesystem::exists(page_));
  }
}

TEST_F(ReportCli, ADamagedFileMakesNoPage) {
  std::string bytes = file_text(file_);
  for (std::size_t at = bytes.size() / 3; at < bytes.size(); at += 97) {
    bytes[at] = static_cast<char>(bytes[at] ^ 0x5a);
  }
  std::ofstream(file_, std::ios::binary) << bytes;
  const ProgramResult result = run({file_, "-o", page_});
  EXPECT_EQ(result.exit_code, 65) << result.err;
  EXPECT_FALSE(std::filesystem::exists(page_));
}

}  // namespace
}  // namespace vindex::testing::report_cli_test
