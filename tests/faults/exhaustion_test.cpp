// The program where threads or memory end.
#include "faults_fixture.hpp"

#include "tests/support/npy_builder.hpp"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

namespace vindex::testing::exhaustion_test {
namespace {

TEST_F(FaultsTest, NoThreadToBeHadIsNoCrash) {
  const std::size_t count = count_calls("pthread_create", "*", measure({"--threads", "3"}));
  ASSERT_GT(count, 5U);
  for (std::size_t at = 1; at <= count; ++at) {
    for (const std::string times : {"1", "all"}) {
      clear();
      const ProgramResult result = run_with({{"CALLS", "pthread_create"},
                                             {"AT", std::to_string(at)},
                                             {"TIMES", times},
                                             {"DO", "EAGAIN"}},
                                            measure({"--threads", "3"}));
      if (result.exit_code != 0) {
        EXPECT_EQ(result.exit_code, 70) << at << result.err;
        EXPECT_NE(result.err.find("E-THREADS: "), std::string::npos) << at << result.err;
      } else {
        EXPECT_EQ(names(), std::vector<std::string>{"o.h5"}) << at;
      }
      EXPECT_EQ(result.err.find("OpenBLAS"), std::string::npos) << result.err;
    }
  }
  expect_complete_rerun();
}

/// It would print and raise SIGINT where it gets none.
TEST_F(FaultsTest, OpenBlasStartsNoThreadsWhateverTheEnvironmentAsksFor) {
  const std::vector<std::string> command = measure({"--threads", "3"});
  const std::size_t usual = count_calls("pthread_create", "*", command);
  clear();
  ASSERT_EQ(::setenv("OPENBLAS_NUM_THREADS", "64", 1), 0);
  const std::size_t asked = count_calls("pthread_create", "*", command);
  ::unsetenv("OPENBLAS_NUM_THREADS");
  EXPECT_EQ(asked, usual);
}

TEST_F(FaultsTest, FewerThreadsAreSaid) {
  bool told = false;
  for (std::size_t at = 1; at <= 40 && !told; ++at) {
    clear();
    const ProgramResult result =
        run_with({{"CALLS", "pthread_create"}, {"AT", std::to_string(at)}, {"DO", "EAGAIN"}},
                 {"measure", model_, "-o", results_, "--threads", "3", "--progress", "none"});
    told =
        result.exit_code == 0 && result.err.find("threads for 2 of 3 workers") != std::string::npos;
  }
  EXPECT_TRUE(told);
}

TEST_F(FaultsTest, NoMemoryIsAnErrorWithAName) {
  const Plan large = {{"CALLS", "malloc"}, {"BYTES", "65536"}};
  const std::string log = folder_.file("log");
  Plan counting = large;
  counting.emplace_back("LOG", log);
  EXPECT_EQ(run_with(counting, measure()).exit_code, 0);
  const std::string text = file_text(log);
  const auto count = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
  ASSERT_GT(count, 12U);
  // From there on: one allocation alone that fails may end libhdf5 (docs/runs/reliability.md). The
  // first one after its room was looked for does, where a file is made and where it is read back.
  constexpr int kSegmentationFault = 128 + SIGSEGV;
  std::size_t crashes = 0;
  for (std::size_t at = 1; at <= count; ++at) {
    clear();
    Plan plan = large;
    plan.insert(plan.end(), {{"AT", std::to_string(at)}, {"TIMES", "all"}, {"DO", "ENOMEM"}});
    const ProgramResult result = run_with(plan, measure());
    if (result.exit_code == kSegmentationFault) {
      ++crashes;
    } else if (result.exit_code != 0) {
      EXPECT_EQ(result.exit_code, 70) << at << result.err;
      EXPECT_NE(result.err.find("E-MEMORY: "), std::string::npos) << at << result.err;
    }
  }
  EXPECT_LE(crashes, 2U);
  expect_complete_rerun();
}

/// OpenBLAS itself would ask for them again and again, and the run never end.
TEST_F(FaultsTest, NoRoomForBuffersOfOpenBlasIsSaidBeforeItAsks) {
  const ProgramResult result = run_with(
      {{"CALLS", "mmap"}, {"BYTES", "100000000"}, {"AT", "1"}, {"TIMES", "all"}, {"DO", "ENOMEM"}},
      measure({"--threads", "3"}));
  EXPECT_EQ(result.exit_code, 70) << result.err;
  EXPECT_NE(result.err.find("E-MEMORY: "), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("OpenBLAS's buffers"), std::string::npos) << result.err;
  expect_complete_rerun();
}

/// Wherever the room ends: at the library, at its buffers, at what is computed with them.
TEST_F(FaultsTest, ACommandWithoutRoomForOpenBlasEnds) {
  constexpr std::int64_t kTokens = 64, kHidden = 32;
  std::vector<float> values(kTokens * kHidden);
  std::vector<std::int64_t> ids(kTokens);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(std::sin(0.7 * static_cast<double>(i * i % 1009)));
    ids[i % ids.size()] = static_cast<std::int64_t>(i % 7);
  }
  const std::string dump = folder_.file("dump"), direction = folder_.file("v.npy");
  fs::create_directory(dump);
  std::ofstream(dump + "/hidden.0.npy") << npy_array(values, {kTokens, kHidden});
  std::ofstream(dump + "/hidden.1.npy") << npy_array(values, {kTokens, kHidden});
  std::ofstream(dump + "/token_ids.npy") << npy_array(ids, {kTokens});
  std::ofstream(direction) << npy_array(
      std::vector<float>(values.begin(), values.begin() + kHidden), {kHidden});
  const std::string tensor = "model.layers.1.mlp.experts.0.down_proj.weight";
  const std::string keys = folder_.file("keys.npy"), values_file = folder_.file("values.npy");
  std::ofstream(keys) << npy_array(std::vector<float>(values.begin(), values.begin() + 64),
                                   {32, 2});
  std::ofstream(values_file) << npy_array(std::vector<float>(values.begin(), values.begin() + 96),
                                          {48, 2});
  must({"-q", "synth", "kimi-k2-mini-q8_0", "-o", folder_.file("q8")});
  const std::string gguf = folder_.file("q8/kimi-k2-mini-Q8_0.gguf");
  const std::vector<std::string> commands[] = {
      measure(),
      {"experts", model_, "-o", results_, "-q", "--k", "2"},
      {"compare", model_, model_, "-o", results_, "-q", "--k", "2", "--delta"},
      {"cka", dump, dump, "-o", results_, "-q"},
      {"edit", "delete", model_, "--tensor", tensor, "--direction", direction, "-o",
       folder_.file("out/edited"), "-q"},
      {"edit", "delete", model_, "--tensor", tensor, "--direction", "singular", "0", "-o",
       folder_.file("out/edited"), "-q"},
      {"edit", "memit", model_, "--tensor", tensor, "--keys", keys, "--values", values_file, "-o",
       folder_.file("out/edited"), "-q"},
      {"organ", "purify", gguf, "--method", "svd-shrink", "--accept-findings", "--cap", "1",
       "--layers", "1", "--type", "ffn", "-o", folder_.file("out/o.gguf"), "-q"},
      {"lookup", gguf, "--token-id", "1", "--json", "-q"}};
  for (const std::vector<std::string>& command : commands) {
    int refused = 0, done = 0;
    for (const int mebibytes : {60, 100, 200, 280, 340, 420, 500, 2000}) {
      clear();
      const ProgramResult result = run_within(mebibytes, command);
      const std::string what =
          command[0] + " within " + std::to_string(mebibytes) + ": " + result.err;
      if (result.exit_code == 0) {
        ++done;
      } else {
        ++refused;
        EXPECT_EQ(result.exit_code, 70) << what;
        EXPECT_TRUE(result.err.starts_with("vindex: E-MEMORY: ") ||
                    result.err.starts_with("vindex: E-THREADS: "))
            << what;
      }
    }
    EXPECT_GE(refused, 1) << command[0];
    EXPECT_GE(done, 1) << command[0];
  }
}

/// Headers of libraries take memory before main() begins.
TEST_F(FaultsTest, NoMemoryBeforeTheProgramBeginsHasAName) {
  const std::size_t count = count_calls("malloc", "*", {"--version"});
  ASSERT_GT(count, 500U);
  int named = 0;
  for (std::size_t i = 0; i < 40; ++i) {
    const ProgramResult result = run_with(
        {{"CALLS", "malloc"}, {"AT", std::to_string(1 + i * count / 40)}, {"DO", "ENOMEM"}},
        {"--version"});
    ASSERT_TRUE(result.exit_code == 0 || result.exit_code == 70) << i << " " << result.exit_code;
    named += result.err.starts_with("vindex: E-MEMORY: ") ? 1 : 0;
  }
  EXPECT_GT(named, 20);
}

/// libhdf5 calls exit(-1) at some allocations of its own that fail.
TEST_F(FaultsTest, ALibraryThatEndsTheProgramIsToldOf) {
  const Plan table = {{"CALLS", "malloc"}, {"BYTES", "512"}};
  const std::string log = folder_.file("log");
  Plan counting = table;
  counting.emplace_back("LOG", log);
  EXPECT_EQ(run_with(counting, measure()).exit_code, 0);
  const std::string text = file_text(log);
  const auto count = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
  bool told = false;
  for (std::size_t i = 0; i < 200 && !told; ++i) {
    clear();
    Plan plan = table;
    plan.insert(plan.end(),
                {{"AT", std::to_string(1 + i * 79 % 200 * count / 200)}, {"DO", "ENOMEM"}});
    const ProgramResult result = run_with(plan, measure());
    ASSERT_NE(result.exit_code, 255) << i;
    told = result.err.find("E-MEMORY: a library ended the program") != std::string::npos;
    EXPECT_TRUE(!told || result.exit_code == 70) << result.exit_code;
  }
  EXPECT_TRUE(told);
  expect_complete_rerun();
}

/// libhdf5 does not always tell that it was memory.
TEST_F(FaultsTest, NoMemoryWhileReadingIsNoDamage) {
  must(measure());
  const std::vector<std::string> command = {
      "export", results_, "--format", "csv", "--force", "-o", folder_.file("out/t.csv")};
  const std::size_t count = count_calls("malloc", "*", command);
  ASSERT_GT(count, 1000U);
  for (std::size_t i = 0; i < 80; ++i) {
    const ProgramResult result = run_with(
        {{"CALLS", "malloc"}, {"AT", std::to_string(1 + i * count / 80)}, {"DO", "ENOMEM"}},
        command);
    EXPECT_NE(result.exit_code, 65) << i << result.err;
  }
}

}  // namespace
}  // namespace vindex::testing::exhaustion_test
