// Where the program reads from and writes to: standard output, files that are there already, pipes
// that close, linked folders, remote addresses.
#include "tests/support/program/program_fixture.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sys/wait.h>

namespace vindex::testing::paths_test {
namespace {

namespace fs = std::filesystem;

class PathsTest : public ProgramTest {
 protected:
  void SetUp() override { must({"synth", "layer:2x16x12:bf16", "-o", model_, "-q"}); }
  /// What a shell makes of `line`, in which $VINDEX, $MODEL and $F stand for what they say.
  ProgramResult shell(const std::string& line) {
    const std::string script = "VINDEX='" VINDEX_PROGRAM "'; MODEL='" + model_ + "'; F='" +
                               folder_.path().string() + "'; set -o pipefail; " + line;
    return RunningProgram("/bin/bash", {"-c", script}, folder_.file("shell")).finish();
  }
  void expect_one_line(const ProgramResult& result, int exit_code, const std::string& id) {
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    EXPECT_EQ(result.err.rfind("vindex: " + id + ": ", 0), 0U) << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  }
  std::string spectra() { return measured(model_, "spectra", {"--backend", "cpu"}); }

  const std::string model_ = folder_.file("model");
  const std::string tensor_ = "model.layers.1.mlp.experts.0.down_proj.weight";
};

TEST_F(PathsTest, DecodeWritesToStandardOutput) {
  must({"decode", model_, "--tensor", tensor_, "-o", folder_.file("down.f32")});
  const ProgramResult stream = run({"decode", model_, "--tensor", tensor_, "-o", "-"});
  EXPECT_EQ(stream.exit_code, 0) << stream.err;
  EXPECT_EQ(stream.out, file_text(folder_.file("down.f32")));
  EXPECT_EQ(stream.out.size(), 16U * 12U * sizeof(float));
  EXPECT_EQ(stream.err, "192 values written to standard output\n");
  EXPECT_EQ(run({"decode", model_, "--tensor", tensor_, "-o", "-", "-q"}).err, "");
  EXPECT_EQ(run({"decode", model_, "--tensor", tensor_, "--slice", "-1", "-o", "-"}).exit_code, 64);
  const ProgramResult results = run({"measure", model_, "-o", "-", "--progress", "none"});
  EXPECT_EQ(results.exit_code, 73);
  EXPECT_NE(results.err.find("E-OUT-PATH"), std::string::npos) << results.err;
}

TEST_F(PathsTest, DecodeSendsNoWeightsToATerminal) {
  if (std::system("script --version >/dev/null 2>&1") != 0) {
    GTEST_SKIP() << "script, which makes a terminal, is not here";
  }
  const ProgramResult result =
      shell("script -qec \"'$VINDEX' decode '$MODEL' --tensor " + tensor_ + " -o -\" /dev/null");
  EXPECT_EQ(result.exit_code, 64) << result.out;
  EXPECT_EQ(result.out.rfind("vindex: E-STDOUT-TERMINAL: ", 0), 0U) << result.out;
}

TEST_F(PathsTest, AFileThatIsThereAsksForForce) {
  const std::string results = spectra();
  const std::string target = folder_.file("out");
  const std::vector<std::vector<std::string>> commands = {
      {"decode", model_, "--tensor", tensor_, "-o", target},
      {"export", results, "--format", "csv", "-o", target},
      {"export", results, "--format", "json", "-o", target},
      {"export", results, "--format", "weightwatcher", "-o", target}};
  for (std::vector<std::string> command : commands) {
    SCOPED_TRACE(command.front() + " " + command[3]);
    std::ofstream(target) << "mine";
    expect_one_line(run(command), 73, "E-OUTPUT-EXISTS");
    EXPECT_EQ(file_text(target), "mine");
    command.emplace_back("--force");
    must(command);
    EXPECT_NE(file_text(target), "mine");
  }
}

TEST_F(PathsTest, FilesOfAFolderAskForForce) {
  const std::string results = spectra();
  const std::string target = folder_.file("phases");
  std::vector<std::string> command = {"export", results, "--format", "phase-json", "-o", target};
  must(command);
  fs::remove(target + "/phase1_moe_svd.json");
  expect_one_line(run(command), 73, "E-OUTPUT-EXISTS");
  EXPECT_FALSE(fs::exists(target + "/phase1_moe_svd.json"));
  command.emplace_back("--force");
  must(command);
  EXPECT_TRUE(fs::exists(target + "/phase1_moe_svd.json"));
}

TEST_F(PathsTest, AResultsFileIsNeverReplaced) {
  const std::string results = spectra();
  const std::string other = folder_.file("other.h5");
  fs::copy_file(results, other);
  const std::string before = file_text(other);
  fs::create_symlink(other, folder_.file("link.csv"));
  for (const std::string& target : {other, folder_.file("link.csv")}) {
    expect_one_line(run({"export", results, "--format", "csv", "-o", target, "--force"}), 73,
                    "E-OUTPUT-RESULTS");
    expect_one_line(run({"decode", model_, "--tensor", tensor_, "-o", target, "--force"}), 73,
                    "E-OUTPUT-RESULTS");
  }
  expect_one_line(run({"export", results, "--format", "csv", "-o", results, "--force"}), 73,
                  "E-OUT-INPUT");
  EXPECT_EQ(file_text(other), before);
}

TEST_F(PathsTest, NoFileOfTheModelIsReplaced) {
  const std::string model = folder_.file("own");
  must({"synth", "layer:64x16x2:bf16", "-o", model, "-q"});
  std::ofstream(model + "/hf_quant_config.json") << "{}";
  for (const char* name : {"config.json", "hf_quant_config.json", "model.safetensors"}) {
    const std::string target = model + "/" + name;
    const std::string before = file_text(target);
    expect_one_line(run({"decode", model, "--tensor", "x", "-o", target, "--force"}), 73,
                    "E-OUTPUT");
    EXPECT_EQ(file_text(target), before) << target;
  }
}

TEST_F(PathsTest, AClosedPipeEndsQuietly) {
  const std::string results = spectra();
  // More than a pipe holds, so that the writer meets the closed end.
  must({"synth", "layer:512x16x12:bf16", "-o", folder_.file("many"), "-q"});
  const std::string many =
      measured(folder_.file("many"), "many", {"--backend", "cpu", "--no-spectra"});
  ASSERT_GT(run({"export", many, "--format", "json", "-o", "-"}).out.size(), 200'000U);
  for (const std::string command :
       {"inspect $F/many --tensors", "inspect $F/many --tensors --json",
        "export $F/many.h5 --format csv -o -", "export $F/many.h5 --format json -o -",
        "decode $MODEL --tensor model.layers.1.mlp.experts.0.down_proj.weight -o - -q",
        "status $F/many.h5", "show $F/many.h5"}) {
    SCOPED_TRACE(command);
    const ProgramResult cut = shell("$VINDEX " + command + " | head -c 20 >/dev/null");
    EXPECT_EQ(cut.exit_code, 0);
    EXPECT_EQ(cut.err, "");
    const ProgramResult none = shell("$VINDEX " + command + " | true");
    EXPECT_EQ(none.exit_code, 0);
    EXPECT_EQ(none.err, "");
  }
}

TEST_F(PathsTest, AFullDiskBehindStandardOutputIsSaid) {
  if (!fs::exists("/dev/full")) {
    GTEST_SKIP() << "/dev/full is not here";
  }
  const std::string results = spectra();
  for (const std::string command :
       {"inspect $MODEL", "export $F/spectra.h5 --format csv -o -",
        "decode $MODEL --tensor model.layers.1.mlp.experts.0.down_proj.weight -o -"}) {
    SCOPED_TRACE(command);
    expect_one_line(shell("$VINDEX " + command + " >/dev/full"), 74, "E-STDOUT");
  }
}

TEST_F(PathsTest, TalkThatNobodyReadsStopsNothing) {
  // Into a pipe whose reader is gone, and where there is no standard error at all: the next file
  // that is opened would have its number.
  for (const std::string nowhere : {"2> >(true)", "2>&-"}) {
    for (const std::string progress : {"none", "plain", "json", "auto"}) {
      const ProgramResult result = shell(
          "$VINDEX measure $MODEL -o $F/out.h5 --restart --backend "
          "cpu --progress " +
          progress + " " + nowhere);
      EXPECT_EQ(result.exit_code, 0) << progress << nowhere << result.out;
      must({"validate", folder_.file("out.h5")});
    }
  }
}

TEST_F(PathsTest, WithoutAStandardOutputResultsAreRefused) {
  const ProgramResult result = shell("$VINDEX inspect $MODEL >&-");
  EXPECT_EQ(result.exit_code, 74) << result.err;
  EXPECT_NE(result.err.find("E-STDOUT"), std::string::npos) << result.err;
}

TEST_F(PathsTest, AFolderOfLinksIsMeasuredWithAWarning) {
  const std::string linked = folder_.file("linked");
  fs::create_directory(linked);
  for (const auto& entry : fs::directory_iterator(model_)) {
    fs::create_symlink(entry.path(), linked + "/" + entry.path().filename().string());
  }
  const std::string wanted = fs::canonical(model_).string();
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"inspect", linked},
           {"decode", linked, "--tensor", tensor_, "-o", folder_.file("w.f32")},
           {"measure", linked, "-o", folder_.file("linked.h5"), "--backend", "cpu"}}) {
    const ProgramResult result = run(command);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const std::string said = result.out + result.err;
    EXPECT_NE(said.find("W-LINK-OUTSIDE"), std::string::npos) << said;
    EXPECT_NE(said.find(wanted), std::string::npos) << said;
  }
}

TEST_F(PathsTest, RemoteModelsAreRefusedByEveryCommand) {
  for (const auto& [address, id] : std::vector<std::pair<std::string, std::string>>{
           {"hf://org//repo", "E-REMOTE-ADDRESS"},
           {"s3://bucket//model.gguf", "E-REMOTE-ADDRESS"},
           {"hf://org/../repo", "E-REMOTE-ADDRESS"},
           {"https://h/../m.gguf", "E-REMOTE-ADDRESS"},
           {"hf://org/a b", "E-REMOTE-ADDRESS"}}) {
    const std::string out = folder_.file("never");
    for (const std::vector<std::string>& command :
         std::vector<std::vector<std::string>>{{"inspect", address},
                                               {"plan", address},
                                               {"measure", address, "-o", out},
                                               {"decode", address, "--tensor", "x", "-o", out}}) {
      SCOPED_TRACE(command.front() + " " + address);
      const ProgramResult result = run(command);
      expect_one_line(result, 64, id);
      EXPECT_FALSE(fs::exists(out));
      EXPECT_FALSE(fs::exists(out + ".parts"));
    }
  }
}

}  // namespace
}  // namespace vindex::testing::paths_test
