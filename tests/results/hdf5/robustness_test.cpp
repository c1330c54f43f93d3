// Kills, full disks, damaged parts and outputs that cannot be: after each a clear error and the
// earlier good state.
#include "robustness_fixture.hpp"

#include "results/reading/validate.hpp"
#include "results/runs/merge.hpp"
#include "results/runs/run_status.hpp"
#include "tests/results/sample_run.hpp"
#include <vindex/error.hpp>

#include <gtest/gtest.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <random>
#include <sys/resource.h>

namespace vindex::results::testing::robustness_test {
namespace {

TEST(Robustness, KillAtAnyMomentLeavesAValidStateToResumeFrom) {
  const RunDescription run = sample_run();
  std::mt19937 generator(7);
  std::uniform_int_distribution<useconds_t> moment(1000, 250000);
  for (int trial = 0; trial < 12; ++trial) {
    const TestFolder folder;
    const std::string path = folder / "out.h5";
    const useconds_t after = moment(generator);
    SCOPED_TRACE(after);
    in_child(
        [&] {
          const auto store = open_run_store(path, run, {}, false);
          for (std::int64_t i = 0; i < 14; ++i) {
            store->add(sample_row(run, i));
            store->publish_part();
            if (i % 4 == 3) {
              store->publish_file();
            }
          }
          store->publish_file();
        },
        after);
    if (fs::exists(path)) {
      EXPECT_EQ(validate_file(path), std::vector<std::string>{});
    }
    const auto store = open_run_store(path, run, {}, false);
    for (std::int64_t i = 0; i < 14; ++i) {
      if (!store->done()[static_cast<std::size_t>(i)]) {
        store->add(sample_row(run, i));
      }
    }
    store->publish_file();
    EXPECT_EQ(validate_file(path), std::vector<std::string>{});
    EXPECT_EQ(files_in(folder.path()), std::vector<std::string>{"out.h5"});
  }
}

/// Writing beyond `bytes` fails with EFBIG in this process, as a full disk would with ENOSPC.
void limit_file_size(rlim_t bytes) {
  std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit = {bytes, bytes};
  setrlimit(RLIMIT_FSIZE, &limit);
}

TEST(Robustness, DiskFullWhilePublishingTheFileIs74AndKeepsTheEarlierFile) {
  const TestFolder folder;
  const std::string path = folder / "out.h5";
  const RunDescription run = sample_run();
  {
    const auto store = open_run_store(path, run, {}, false);
    measure_rows(*store, run, 0, 5);
    store->publish_file();
  }
  const std::string before = read_file(path);
  // From refusing almost at once to refusing only the last bytes.
  for (const std::size_t bytes : {std::size_t{150'000}, std::size_t{200'000}, before.size() / 2,
                                  before.size() - 4096, before.size() - 100}) {
    SCOPED_TRACE(bytes);
    const int status = in_child([&] {
      const auto store = open_run_store(path, run, {}, false);
      limit_file_size(bytes);
      measure_rows(*store, run, 5, 9);
      store->publish_file();
    });
    ASSERT_TRUE(WIFEXITED(status)) << "died of signal " << WTERMSIG(status);
    EXPECT_EQ(WEXITSTATUS(status), 74);
    EXPECT_EQ(read_file(path), before);
    EXPECT_EQ(validate_file(path), std::vector<std::string>{});
  }
  EXPECT_EQ(read_status(path).done, 9);
  for (const std::string& name : files_in(folder.path())) {
    EXPECT_EQ(name.find(".tmp."), std::string::npos) << name;
  }
}

TEST(Robustness, DiskFullWhilePublishingAPartLosesNothingPublished) {
  const TestFolder folder;
  const std::string path = folder / "out.h5";
  const RunDescription run = sample_run();
  const int status = in_child([&] {
    const auto store = open_run_store(path, run, {}, false);
    measure_rows(*store, run, 0, 5);
    store->publish_part();
    limit_file_size(4096);
    measure_rows(*store, run, 5, 9);
    store->publish_part();
  });
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 74);
  EXPECT_EQ(read_status(path).done, 5);
}

TEST(Robustness, OutputsThatCannotBeAreRefusedBeforeAnythingIsWritten) {
  const TestFolder folder;
  const RunDescription run = sample_run();
  write_file(folder / "plain", "text");
  write_file(folder / "model.safetensors", std::string(200, 'x'));
  const auto open = [&](const std::string& path, bool restart = false) {
    return outcome_of([&] { open_run_store(path, run, {}, restart); });
  };
  const std::vector<std::string> before = files_in(folder.path());
  EXPECT_EQ(open(folder / "plain/out.h5").code, ExitCode::kCannotCreate);
  EXPECT_EQ(open(folder / "absent/out.h5").code, ExitCode::kCannotCreate);
  EXPECT_EQ(open(folder.path()).code, ExitCode::kCannotCreate);
  EXPECT_EQ(open("/dev/null").code, ExitCode::kCannotCreate);
  EXPECT_EQ(open(folder / "model.safetensors").id, "E-OUT-FOREIGN");
  EXPECT_EQ(open(folder / "model.safetensors", true).id, "E-OUT-FOREIGN");
  // A folder that nobody may write to, root included.
  EXPECT_NE(open("/proc/self/out.h5").code, ExitCode::kOk);
  EXPECT_EQ(files_in(folder.path()), before);
}

TEST(Robustness, DamagedPartIsNamed) {
  const RunDescription run = sample_run();
  for (const double where : {0.01, 0.3, 0.6, 0.99}) {
    const TestFolder folder;
    const std::string path = folder / "out.h5";
    {
      const auto store = open_run_store(path, run, {}, false);
      measure_rows(*store, run, 0, 5);
      store->publish_part();
    }
    for (const auto& entry : fs::directory_iterator(path + ".parts")) {
      if (entry.path().filename().string().starts_with("part-")) {
        std::string bytes = read_file(entry.path());
        bytes[static_cast<std::size_t>(where * static_cast<double>(bytes.size()))] ^= 0x10;
        write_file(entry.path(), bytes);
      }
    }
    EXPECT_EQ(outcome_of([&] { open_run_store(path, run, {}, false); }).id, "E-PART-DIGEST");
    EXPECT_EQ(outcome_of([&] { merge_parts({path + ".parts"}, path); }).id, "E-PART-DIGEST");
    EXPECT_FALSE(fs::exists(path));
    EXPECT_NO_THROW(open_run_store(path, run, {}, true));
  }
}

TEST(Robustness, StaleTemporariesOfKilledRunsAreRemoved) {
  const TestFolder folder;
  const std::string path = folder / "out.h5";
  std::array<char, 256> host = {};
  ASSERT_EQ(gethostname(host.data(), host.size()), 0);
  write_file(path + ".tmp." + host.data() + ".999999999.0", "half");
  write_file(path + ".tmp.elsewhere.12.0", "another machine's, and fresh");
  write_file(path + ".tmp", "not ours");
  write_sample(path, sample_run());
  EXPECT_EQ(files_in(folder.path()),
            (std::vector<std::string>{"out.h5", "out.h5.tmp", "out.h5.tmp.elsewhere.12.0"}));
}

}  // namespace
}  // namespace vindex::results::testing::robustness_test
