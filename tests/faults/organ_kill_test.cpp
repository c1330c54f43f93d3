// The commands that write models, killed at moments that are drawn: the source stays what it is,
// the same command again ends well, and nothing else is left.
#include "faults_fixture.hpp"

#include <map>
#include <random>

namespace vindex::testing::organ_kill_test {
namespace {

using Contents = std::map<std::string, std::string>;

class OrganKillTest : public FaultsTest {
 protected:
  void SetUp() override {
    FaultsTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) {
      return;
    }
    must({"synth", "kimi-k2-mini-q8_0", "-o", folder_.file("in")});
    must({"organ", "extract", gguf_, "-o", folder_.file("in/organs")});
  }
  /// Every file below `folder`, by path.
  static Contents contents(const std::string& folder) {
    Contents found;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      found[entry.path()] = entry.is_directory() ? "" : file_text(entry.path());
    }
    return found;
  }
  /// Kills `arguments`, which writes into out/, at moments over the whole of its run.
  void expect_kills_leave_nothing(const std::vector<std::string>& arguments, unsigned seed) {
    const std::string calls = "open,openat,write,pwrite,fsync,rename,renameat2,close,mkdir,unlink";
    const Contents inputs = contents(folder_.file("in"));
    clear();
    must(arguments);
    const std::vector<std::string> whole = names();
    clear();
    const std::size_t count = count_calls(calls, "*/out/*", arguments);
    ASSERT_GT(count, 5U);
    std::mt19937 random(seed);
    constexpr int kKills = 6;
    for (int i = 0; i < kKills; ++i) {
      clear();
      const std::size_t at = 1 + (i == kKills - 1 ? count - 1 : random() % count);
      const ProgramResult killed = run_with({{"CALLS", calls},
                                             {"PATH", "*/out/*"},
                                             {"AT", std::to_string(at)},
                                             {"DO", i % 2 == 0 ? "kill-before" : "kill-after"}},
                                            arguments);
      ASSERT_EQ(killed.exit_code, kKilled) << at << ": " << killed.err;
      EXPECT_TRUE(contents(folder_.file("in")) == inputs) << at;
      const bool is_whole = names() == whole;
      const ProgramResult again = run(arguments);
      // What is whole under its name already is not written again without --force.
      EXPECT_EQ(again.exit_code, is_whole ? 73 : 0) << at << ": " << again.err;
      EXPECT_EQ(names(), whole) << at;
    }
  }

  const std::string gguf_ = folder_.file("in/kimi-k2-mini-Q8_0.gguf");
};

TEST_F(OrganKillTest, Extract) {
  expect_kills_leave_nothing({"-q", "organ", "extract", gguf_, "-o", folder_.file("out/o")}, 1);
}

TEST_F(OrganKillTest, Assemble) {
  expect_kills_leave_nothing(
      {"-q", "organ", "assemble", folder_.file("in/organs"), "-o", folder_.file("out/o.gguf")}, 2);
}

TEST_F(OrganKillTest, Graft) {
  expect_kills_leave_nothing(
      {"-q", "organ", "graft", "--source", folder_.file("in/organs"), "--target", gguf_, "--type",
       "organ", "-o", folder_.file("out/o.gguf")},
      3);
}

TEST_F(OrganKillTest, Purify) {
  expect_kills_leave_nothing(
      {"-q", "organ", "purify", gguf_, "--type", "ffn", "--layers", "0", "--method", "laser",
       "--accept-findings", "--cap", "1", "--threads", "1", "-o", folder_.file("out/o.gguf")},
      4);
}

}  // namespace
}  // namespace vindex::testing::organ_kill_test
