// extract, verify and assemble through the program: outputs, exit codes, what is left after a stop.
#include "tests/support/gguf_builder.hpp"
#include "tests/support/program/program_fixture.hpp"

#include <nlohmann/json.hpp>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

namespace vindex::testing::organ_cli_test {
namespace {

class OrganCliTest : public ProgramTest {
 protected:
  std::string write(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_.file(name), std::ios::binary) << bytes;
    return folder_.file(name);
  }
};

TEST_F(OrganCliTest, ExtractVerifyAssemble) {
  const std::string bytes = small_gguf().bytes();
  const std::string model = write("m.gguf", bytes);
  const std::string organs = folder_.file("organs");
  const ProgramResult apart = run({"organ", "extract", model, "-o", organs, "--json"});
  ASSERT_EQ(apart.exit_code, 0) << apart.err;
  const auto report = nlohmann::json::parse(apart.out);
  EXPECT_EQ(report["schema"], "organ-extract/1");
  EXPECT_EQ(report["tensors"], 2);
  EXPECT_EQ(report["bytes"], 68);
  const auto manifest = nlohmann::json::parse(file_text(organs + "/manifest.json"));
  EXPECT_EQ(manifest["schema"], "organ-manifest/1");
  EXPECT_EQ(manifest["tensors"][1]["file"], "other/b.bin");
  EXPECT_EQ(manifest["kv"][1]["value"], 1);
  must({"-q", "organ", "verify", organs + "/other/b.bin"});
  must({"-q", "organ", "verify", organs});
  const std::string again = folder_.file("again.gguf");
  must({"organ", "assemble", organs, "-o", again});
  EXPECT_EQ(file_text(again), bytes);
  const ProgramResult twice = run({"organ", "assemble", organs, "-o", again});
  EXPECT_EQ(twice.exit_code, 73);
  EXPECT_NE(twice.err.find("E-OUTPUT-EXISTS"), std::string::npos) << twice.err;
  must({"organ", "assemble", organs, "-o", again, "--force"});
  must({"organ", "assemble", model, "-o", model, "--force"}, 73);
  EXPECT_EQ(file_text(model), bytes);
}

TEST_F(OrganCliTest, VerifyEndsWith65AndNamesWhatIsWrong) {
  GgufBuilder wrong;
  wrong.key_string("general.architecture", "llama")
      .key("llama.block_count", 10, wrong.number(std::uint64_t{0}));
  const std::string model = write("m.gguf", wrong.bytes());
  const ProgramResult text = run({"organ", "verify", model});
  EXPECT_EQ(text.exit_code, 65);
  EXPECT_NE(text.out.find("error   V-KEY-TYPE key \"llama.block_count\": is u64"),
            std::string::npos)
      << text.out;
  EXPECT_NE(text.err.find("E-ORGAN-VERIFY"), std::string::npos) << text.err;
  const ProgramResult json = run({"organ", "verify", model, "--json"});
  EXPECT_EQ(json.exit_code, 65);
  const auto report = nlohmann::json::parse(json.out);
  EXPECT_EQ(report["schema"], "organ-verify/1");
  EXPECT_EQ(report["findings"][0]["id"], "V-KEY-TYPE");
  EXPECT_EQ(run({"organ", "verify", folder_.file("absent.gguf")}).exit_code, 66);
}

TEST_F(OrganCliTest, OrgansOfSafetensorsAreForReading) {
  must({"-q", "synth", "kimi-k2-mini", "-o", folder_.file("mini")});
  const std::string organs = folder_.file("organs");
  must({"organ", "extract", folder_.file("mini"), "-o", organs, "--type", "router,norm"});
  const auto manifest = nlohmann::json::parse(file_text(organs + "/manifest.json"));
  EXPECT_EQ(manifest["source"]["container"], "safetensors");
  EXPECT_GT(manifest["counts"]["router"]["tensors"], 0);
  for (const auto& tensor : manifest["tensors"]) {
    EXPECT_TRUE(std::filesystem::exists(organs + "/" + tensor["file"].get<std::string>()));
    EXPECT_EQ(tensor["sha256"].get<std::string>().size(), 64U);
  }
  const ProgramResult refused = run({"organ", "assemble", organs, "-o", folder_.file("x.gguf")});
  EXPECT_EQ(refused.exit_code, 78);
  EXPECT_NE(refused.err.find("E-ORGAN-SAFETENSORS"), std::string::npos) << refused.err;
}

TEST_F(OrganCliTest, AStopLeavesNothing) {
  GgufBuilder large;
  large.key_string("general.architecture", "llama");
  large.tensor("a.weight", {std::uint64_t{1} << 25U}, 0, 0);
  large.data = std::string(std::size_t{1} << 27U, 'x');
  const std::string model = write("m.gguf", large.bytes());
  const std::string organs = folder_.file("organs");
  const std::vector<std::string> command = {"organ", "extract", model, "-o", organs};
  RunningProgram program(VINDEX_PROGRAM, command, folder_.file("stream"));
  while (!std::filesystem::exists(organs)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  program.signal(SIGINT);
  const ProgramResult result = program.finish();
  // A machine may be so fast that nothing was left to stop.
  if (result.exit_code != 0) {
    EXPECT_EQ(result.exit_code, 75) << result.err;
    EXPECT_FALSE(std::filesystem::exists(organs));
  }
}

}  // namespace
}  // namespace vindex::testing::organ_cli_test
