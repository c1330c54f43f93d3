// Refusals that say what there is and what was probably meant: one line, exit 64, nothing written.
#include "tests/support/program/program_fixture.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace vindex::testing::messages_cli_test {
namespace {

class MessagesCliTest : public ProgramTest {
 protected:
  void SetUp() override {
    must({"synth", "kimi-k2-mini", "-o", folder_.file("mini")});
    model_ = folder_.file("mini");
  }
  /// The one line of a refusal.
  std::string refusal(const std::vector<std::string>& arguments) {
    const ProgramResult result = run(arguments);
    EXPECT_EQ(result.exit_code, 64) << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_LT(result.cpu_seconds, 2.0);
    EXPECT_FALSE(std::filesystem::exists(folder_.file("out.h5")));
    EXPECT_FALSE(std::filesystem::exists(folder_.file("out.h5.parts")));
    return result.err;
  }
  std::string measuring(const std::string& option, const std::string& value) {
    return refusal({"measure", model_, "-o", folder_.file("out.h5"), option, value});
  }
  std::string model_;
};

TEST_F(MessagesCliTest, SelectionsThatNameNothing) {
  expect_parts(measuring("--layers", "9"),
               {"vindex: E-SELECTION: ", "--layers 9", "the model has layers 0-3"});
  expect_parts(measuring("--roles", "dwn_proj"),
               {"E-SELECTION", "did you mean down_proj?", "its roles are ", "up_proj"});
  expect_parts(measuring("--blocks", "routed"),
               {"E-SELECTION", "did you mean routed_expert or router?", "shared_expert"});
  expect_parts(measuring("--blocks", "ssm"), {"--blocks ssm", "its blocks are ", "routed_expert"});
  expect_parts(measuring("--tensors", "down_proj"),
               {"E-SELECTION", "--tensors '.*down_proj.*' takes ", " matrices"});
  expect_parts(refusal({"plan", model_, "--layers", "0", "--blocks", "routed_expert"}),
               {"E-SELECTION", "--layers", "are in layers 1-3"});
}

TEST_F(MessagesCliTest, APartThatNamesNothingIsAWarning) {
  const ProgramResult result =
      run({"measure", model_, "-o", folder_.file("out.h5"), "--layers", "1", "--blocks",
           "shared_expert", "--roles", "down_proj,gat_proj", "--backend", "cpu"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  expect_parts(result.err, {"warning W-SELECTION: --roles gat_proj", "did you mean gate_proj?"});
}

TEST_F(MessagesCliTest, DecodeNamesTheNearestTensorAndTheSlicesThereAre) {
  const auto decoding = [&](const std::string& model, const std::string& tensor,
                            const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {"decode", model, "--tensor",
                                          tensor,   "-o",  folder_.file("out.f32")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return refusal(arguments);
  };
  expect_parts(decoding(model_, "model.layers.1.mlp.experts.0.dwn_proj.weight"),
               {"E-TENSOR", "did you mean model.layers.1.mlp.experts.0.down_proj.weight"});
  expect_parts(decoding(model_, "model.layers.1.mlp.experts.0.down_proj"),
               {"did you mean model.layers.1.mlp.experts.0.down_proj.weight"});
  expect_parts(decoding(model_, "nothing like it"), {"`vindex inspect --tensors` lists"});
  expect_parts(decoding(model_, "lm_head.weight", {"--slice", "3"}),
               {"E-SLICE", "it is one matrix, leave --slice out"});
  VINDEX_NEEDS(mixture_gguf_);
  expect_parts(decoding(mixture_gguf_, "blk.1.ffn_down_exps.weight", {"--slice", "8"}),
               {"E-SLICE", "no slice 8; it has 0-7"});
}

TEST_F(MessagesCliTest, TensorsOfManySidesThatStandUnmeasuredAreTold) {
  const std::string header =
      R"({"conv_in.weight":{"dtype":"F32","shape":[2,2,1,1],"data_offsets":[0,16]},)"
      R"("a":{"dtype":"F32","shape":[2,2],"data_offsets":[16,32]}})";
  const std::string model = folder_.file("m.safetensors");
  std::ofstream(model, std::ios::binary)
      << std::string(1, static_cast<char>(header.size())) << std::string(7, '\0') << header
      << std::string(32, '\x3c');
  const std::string told = "1 tensor of rank 3 or more stands unmeasured: 1 convolution";
  const ProgramResult inspected = run({"inspect", model});
  EXPECT_NE(inspected.out.find("note: " + told), std::string::npos) << inspected.out;
  const std::vector<std::string> measure = {"measure",   model, "-o", folder_.file("out.h5"),
                                            "--backend", "cpu"};
  expect_parts(run(measure).err, {"note: " + told, "conv_in.weight"});
  EXPECT_EQ(run({"inspect", model_}).out.find("unmeasured"), std::string::npos);
}

TEST_F(MessagesCliTest, PlainWordsAndEightyColumns) {
  const ProgramResult plan = run({"plan", model_, "--backend", "cpu"});
  const ProgramResult measured =
      run({"measure", model_, "-o", folder_.file("out.h5"), "--backend", "cpu"});
  const ProgramResult inspected = run({"inspect", model_});
  for (const ProgramResult* result : {&plan, &measured, &inspected}) {
    ASSERT_EQ(result->exit_code, 0) << result->err;
    std::istringstream lines(result->out);
    for (std::string line; std::getline(lines, line);) {
      // A path is not broken.
      EXPECT_TRUE(line.size() <= 80 || line.find(folder_.path().string()) != std::string::npos)
          << line;
    }
    for (const char* jargon : {"hand-over", "host ring", "escalated to"}) {
      EXPECT_EQ(result->out.find(jargon), std::string::npos) << result->out;
    }
  }
}

}  // namespace
}  // namespace vindex::testing::messages_cli_test
