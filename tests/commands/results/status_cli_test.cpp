// The command status, and progress in logs: during a run, after a kill, of a resumed run.
#include "tests/support/program/program_fixture.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <sstream>
#include <thread>

namespace vindex::testing::status_cli_test {
namespace {

class StatusCliTest : public ProgramTest {
 protected:
  nlohmann::json status(const std::string& path) {
    const ProgramResult result = run({"status", path, "--json"});
    return result.exit_code == 0 ? nlohmann::json::parse(result.out) : nlohmann::json();
  }
  /// 73 MB that are made in half a second and take a fast core 20 s: the run is far from its end
  /// when the first news of it, after a second or the first matrix, is seen.
  std::string slow_model() {
    must({"synth", "layer:32x2048x2048:int4", "-o", folder_.file("slow")});
    return folder_.file("slow");
  }
};

TEST_F(StatusCliTest, ARunThatWorksIsCountedByItsFinishedRows) {
  const std::string out = folder_.file("out.h5");
  RunningProgram running(VINDEX_PROGRAM,
                         {"measure", slow_model(), "-o", out, "--backend", "cpu", "--threads", "1",
                          "--mode", "strict", "--progress", "none"},
                         folder_.file("run"));
  nlohmann::json seen;
  for (int i = 0; i < 600 && !(seen.is_object() && seen["done"] > 0); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    seen = status(out);
  }
  const ProgramResult text = run({"status", out});
  running.signal(SIGKILL);
  running.finish();
  ASSERT_TRUE(seen.is_object());
  for (const char* key : {"schema", "state", "matrices_total", "done", "failed", "left"}) {
    EXPECT_TRUE(seen.contains(key)) << key;
  }
  EXPECT_EQ(seen["schema"], "vindex-status/1");
  EXPECT_EQ(seen["matrices_total"], 32);
  EXPECT_GT(seen["done"], 0);
  EXPECT_LT(seen["done"], 32);
  EXPECT_EQ(seen["done"].get<int>() + seen["left"].get<int>(), 32);
  EXPECT_EQ(seen["workers"], 1);
  EXPECT_GT(seen["rate_per_second"], 0.0);
  EXPECT_GT(seen["eta_seconds"], 0.0);
  EXPECT_EQ(seen["failed_rows"].size(), 0U);
  EXPECT_EQ(text.out.rfind("running: ", 0), 0U) << text.out;
  EXPECT_NE(text.out.find("1 process at work, "), std::string::npos) << text.out;
  // The heartbeat of a process that was killed is not believed.
  const ProgramResult stopped = run({"status", out});
  EXPECT_EQ(stopped.out.rfind("stopped: 0 done, 0 failed, 32 left of 32 matrices\n", 0), 0U)
      << stopped.out;
  EXPECT_NE(stopped.out.find("ended without a word"), std::string::npos) << stopped.out;
  EXPECT_EQ(status(out)["workers"], 0);
  EXPECT_EQ(status(out)["workers_gone"], 1);
}

TEST_F(StatusCliTest, FailedRowsOfAFinishedFileAreNamed) {
  // Codes without the scale that their scheme needs.
  const std::string header =
      R"({"model.layers.0.mlp.up_proj.weight":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},)"
      R"("model.layers.0.mlp.down_proj.weight_packed":{"dtype":"I32","shape":[2,2],)"
      R"("data_offsets":[16,32]}})";
  const std::string model = folder_.file("m.safetensors");
  std::ofstream(model, std::ios::binary)
      << std::string(1, static_cast<char>(header.size() & 0xFFU))
      << std::string(1, static_cast<char>(header.size() >> 8U)) << std::string(6, '\0') << header
      << std::string(32, '\x01');
  const std::string out = folder_.file("out.h5");
  must({"measure", model, "-o", out, "--backend", "cpu", "--progress", "none"}, 65);
  const auto document = status(out);
  EXPECT_EQ(document["state"], "complete");
  EXPECT_EQ(document["failed"], 1);
  ASSERT_EQ(document["failed_rows"].size(), 1U);
  EXPECT_EQ(document["failed_rows"][0]["tensor"], "model.layers.0.mlp.down_proj.weight");
  EXPECT_EQ(document["failed_rows"][0]["status"], "unsupported");
  EXPECT_NE(document["failed_rows"][0]["reason"], "");
  const ProgramResult text = run({"status", out});
  EXPECT_NE(text.out.find("  unsupported model.layers.0.mlp.down_proj.weight: "), std::string::npos)
      << text.out;
}

TEST_F(StatusCliTest, AResumedRunCountsFromWhereItStands) {
  must({"synth", "kimi-k2-mini", "-o", folder_.file("mini")});
  for (const std::string mode : {"json", "plain"}) {
    const std::string out = folder_.file(mode + ".h5");
    must({"measure", folder_.file("mini"), "-o", out, "--blocks", "router", "--progress", "none"});
    const int before = status(out)["done"];
    const ProgramResult result = run({"measure", folder_.file("mini"), "-o", out, "--blocks",
                                      "router,shared_expert", "-q", "--progress", mode});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const int total = status(out)["matrices_total"];
    std::istringstream lines(result.err);
    std::string first;
    std::string last;
    for (std::string line; std::getline(lines, line);) {
      first = first.empty() ? line : first;
      last = line;
    }
    if (mode == "json") {
      EXPECT_GT(total, before);
      EXPECT_EQ(nlohmann::json::parse(first)["done_before"], before) << first;
      EXPECT_GE(nlohmann::json::parse(first)["done"], before) << first;
      EXPECT_EQ(nlohmann::json::parse(first)["total"], total) << first;
      EXPECT_EQ(nlohmann::json::parse(last)["done"], total) << last;
    } else {
      const std::string whole = std::to_string(total) + "/" + std::to_string(total);
      EXPECT_EQ(last.rfind(whole + " matrices  100%", 0), 0U) << last;
    }
  }
}

TEST_F(StatusCliTest, WithoutATerminalThereAreFewPlainLines) {
  must({"synth", "kimi-k2-mini", "-o", folder_.file("mini")});
  const ProgramResult result =
      run({"measure", folder_.file("mini"), "-o", folder_.file("out.h5"), "--backend", "cpu"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.err.find('\r'), std::string::npos) << result.err;
  EXPECT_EQ(result.err.find('\x1b'), std::string::npos) << result.err;
  std::istringstream lines(result.err);
  int progress = 0;
  for (std::string line; std::getline(lines, line);) {
    progress += line.find(" matrices  ") != std::string::npos ? 1 : 0;
  }
  EXPECT_GE(progress, 1) << result.err;
  EXPECT_LE(progress, 2 + static_cast<int>(result.seconds / 5.0)) << result.err;
  std::istringstream table(result.out);
  for (std::string line; std::getline(table, line);) {
    EXPECT_LE(line.size(), 80U) << line;
  }
}

}  // namespace
}  // namespace vindex::testing::status_cli_test
