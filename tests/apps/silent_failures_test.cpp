// No command ends with another code than 0 in silence: one line on standard error says why, with
// --quiet, --worker and redirected output too.
#include "tests/support/program/program_fixture.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace vindex::testing::silent_failures_test {
namespace {

class SilentFailuresTest : public ProgramTest {
 protected:
  /// The reason of a run that must end with `exit_code`: the last line on standard error.
  std::string reason(const ProgramResult& result, int exit_code) {
    EXPECT_EQ(result.exit_code, exit_code) << result.out << result.err;
    const std::size_t begin = result.err.find("vindex: E-");
    EXPECT_NE(begin, std::string::npos) << result.err;
    const std::string line = result.err.substr(std::min(begin, result.err.size()));
    EXPECT_EQ(line.find('\n'), line.size() - 1) << result.err;
    return line;
  }
  std::string quiet(std::vector<std::string> arguments, int exit_code) {
    arguments.insert(arguments.begin(), "--quiet");
    const ProgramResult result = run(arguments);
    const std::string line = reason(result, exit_code);
    EXPECT_EQ(line, result.err) << "and nothing else";
    return line;
  }
  /// Three matrices, of which two are codes without the scale that their scheme needs.
  std::string broken_model() {
    const std::string header =
        R"({"model.layers.0.mlp.up_proj.weight":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},)"
        R"("model.layers.1.mlp.down_proj.weight_packed":{"dtype":"I32","shape":[2,2],)"
        R"("data_offsets":[16,32]},"model.layers.0.mlp.down_proj.weight_packed":{"dtype":"I32",)"
        R"("shape":[2,2],"data_offsets":[32,48]}})";
    const std::string model = folder_.file("m.safetensors");
    std::ofstream(model, std::ios::binary)
        << std::string(1, static_cast<char>(header.size() & 0xFFU))
        << std::string(1, static_cast<char>(header.size() >> 8U)) << std::string(6, '\0') << header
        << std::string(48, '\x01');
    return model;
  }
  std::string out(const std::string& name = "out.h5") { return folder_.file(name); }
};

TEST_F(SilentFailuresTest, TheFirstRowWithoutAMeasurementIsNamed) {
  const std::string model = broken_model();
  const std::vector<std::string> told = {"E-ROWS: model.layers.0.mlp.down_proj.weight: ",
                                         "; 1 more of 3 matrices have no measurement either"};
  const std::vector<std::string> command = {"measure", model, "-o", out(), "--backend", "cpu"};
  expect_parts(quiet(command, 65), told);
  expect_parts(quiet(command, 65), told);  // nothing is left to do, and it is told again
  std::vector<std::string> loud = command;
  loud.insert(loud.end(), {"--progress", "none"});
  expect_parts(reason(run(loud), 65), told);
}

TEST_F(SilentFailuresTest, EveryWorkerTellsOfItsOwnRows) {
  const std::string model = broken_model();
  std::string both;
  for (const char* share : {"0/2", "1/2"}) {
    const ProgramResult worker = run({"measure", model, "-o", out(), "--backend", "cpu", "--worker",
                                      share, "--progress", "none"});
    EXPECT_EQ(worker.out, "");
    both += worker.exit_code == 0 ? "" : reason(worker, 65);
  }
  expect_parts(both, {"model.layers.0.mlp.down_proj.weight: ", "model.layers.1.mlp.down_proj"});
  expect_parts(
      quiet({"validate",
             out() + ".parts/" +
                 std::filesystem::directory_iterator(out() + ".parts")->path().filename().string()},
            65),
      {"vindex: E-"});
}

TEST_F(SilentFailuresTest, FaultsOfAResultsFileAreToldBesideTheList) {
  must({"synth", "layer:2x32x16:bf16", "-o", folder_.file("layer")});
  must({"measure", folder_.file("layer"), "-o", out(), "--backend", "cpu", "--worker", "0/2"});
  std::string part;
  for (const auto& entry : std::filesystem::directory_iterator(out() + ".parts")) {
    if (entry.path().filename().string().starts_with("part")) {
      part = entry.path().string();
    }
  }
  ASSERT_FALSE(part.empty());
  const ProgramResult result = run({"-q", "validate", part});
  expect_parts(reason(result, 65), {"E-INVALID: ", "is a part of a run"});
  EXPECT_NE(result.out, "");
}

TEST_F(SilentFailuresTest, ARunThatIsStoppedSaysSo) {
  must({"synth", "layer:24x768x768:bf16", "-o", folder_.file("slow")});
  const std::vector<std::string> command = {
      "-q",     "measure", folder_.file("slow"), "-o", out(), "--backend", "cpu", "--threads", "1",
      "--mode", "strict"};
  for (const int signals : {1, 2}) {
    RunningProgram running(VINDEX_PROGRAM, command, folder_.file("run"));
    for (int i = 0; i < 6000 && !std::filesystem::exists(out() + ".parts"); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    for (int i = 0; i < signals; ++i) {
      running.signal(SIGINT);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    const ProgramResult stopped = running.finish();
    if (signals == 1 || stopped.exit_code == 75) {
      expect_parts(reason(stopped, 75), {"E-STOPPED: stopped early by SIGINT: ",
                                         " of 24 matrices are kept; run the same command again"});
    } else {
      // The second may come when the run has said why it ends and is about to.
      const std::string why = reason(stopped, 130);
      EXPECT_TRUE(why.find("E-INTERRUPTED: ") != std::string::npos ||
                  why.find("E-STOPPED: ") != std::string::npos)
          << why;
    }
  }
}

TEST_F(SilentFailuresTest, EveryCommandSaysWhyItFailed) {
  const std::string model = broken_model();
  const std::string nowhere = folder_.file("nowhere");
  const std::string tensor = "model.layers.0.mlp.down_proj.weight";
  expect_parts(quiet({"decode", model, "--tensor", tensor, "-o", out("w.f32")}, 65), {tensor});
  expect_parts(quiet({"bench", "--sections", "end-to-end", "--model", model, "--backend", "cpu",
                      "--samples", "1", "--folder", folder_.path().string()},
                     70),
               {"E-BENCH: end_to_end ", tensor});
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"inspect", nowhere},
           {"plan", nowhere},
           {"measure", nowhere, "-o", out()},
           {"merge", nowhere, "-o", out()},
           {"validate", nowhere},
           {"status", nowhere},
           {"show", nowhere},
           {"export", nowhere, "--format", "csv", "-o", out("table.csv")}}) {
    quiet(command, 66);
  }
  quiet({"synth", "no-such-model", "-o", out()}, 64);
  quiet({"measure"}, 64);
  quiet({}, 64);
  quiet({"no-such-verb\n"}, 64);
}

TEST_F(SilentFailuresTest, HelpThatNobodyCanReadIsAFailure) {
  if (!std::filesystem::exists("/dev/full")) {
    GTEST_SKIP() << "no /dev/full here";
  }
  const std::string script = folder_.file("help.sh");
  std::ofstream(script) << VINDEX_PROGRAM << " --help > /dev/full\n";
  reason(RunningProgram("/bin/sh", {script}, folder_.file("stream")).finish(), 74);
}

}  // namespace
}  // namespace vindex::testing::silent_failures_test
