// What a selection that names nothing is answered with.
#include "model_fixture.hpp"

#include "model/selection/selection.hpp"
#include <vindex/error.hpp>

#include <chrono>

namespace vindex::model::selection_advice_test {
namespace {

ModelIndex small_model() {
  ModelFixture fixture;
  fixture.config("model_type", "llama");
  fixture.bf16("model.embed_tokens.weight", {9, 4});
  fixture.bf16("model.norm.weight", {4});
  for (const std::string layer : {"0", "1", "2", "3", "7"}) {
    fixture.bf16("model.layers." + layer + ".self_attn.q_proj.weight", {6, 4});
    fixture.bf16("model.layers." + layer + ".mlp.down_proj.weight", {4, 8});
  }
  return fixture.index();
}

std::string answer(const std::string& layers, const std::string& blocks, const std::string& roles,
                   const std::string& tensors) {
  return empty_selection_text(small_model(), parse_selection(layers, blocks, roles, tensors));
}

TEST(SelectionAdviceTest, LayersAreToldAsRanges) {
  EXPECT_EQ(answer("9", "", "", ""),
            "--layers 9: no matrix is there; the model has layers 0-3,7 and -1 (no layer)");
  EXPECT_EQ(answer("4-6,9", "", "", ""),
            "--layers 4-6: no matrix is there; the model has layers 0-3,7 and -1 (no layer)");
}

TEST(SelectionAdviceTest, ManyRangesOfLayersAreCutShort) {
  std::set<std::int32_t> layers;
  for (std::int32_t layer = 0; layer < 2000; layer += 2) {
    layers.insert(layer);
  }
  EXPECT_TRUE(layers_text(layers).ends_with(",44,46,...,1998")) << layers_text(layers);
  EXPECT_EQ(layers_text({-1}), "-1 (no layer) only");
}

TEST(SelectionAdviceTest, BlocksAndRolesAreToldWithTheNearest) {
  EXPECT_EQ(answer("", "router", "", ""),
            "--blocks router: the model has none; its blocks are embedding, attention, dense_mlp");
  EXPECT_EQ(answer("", "", "dwn_proj", ""),
            "--roles dwn_proj: the model has none; did you mean down_proj? its roles are "
            "embed_tokens, q_proj, down_proj");
  EXPECT_EQ(answer("", "", "zzzzzz", ""),
            "--roles zzzzzz: the model has none; its roles are embed_tokens, q_proj, down_proj");
  try {
    parse_selection("", "routed", "", "");
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("did you mean routed_expert or router? they are "),
              std::string::npos)
        << error.what();
  }
}

TEST(SelectionAdviceTest, ManyNamesAreCounted) {
  ModelFixture fixture;
  fixture.config("model_type", "strange");
  for (int i = 10; i < 40; ++i) {
    fixture.bf16("model.layers.0.part" + std::to_string(i) + ".weight", {6, 4});
  }
  const std::string text =
      empty_selection_text(fixture.index(), parse_selection("", "", "zzzzzzzz", ""));
  EXPECT_NE(text.find("part10, part11, "), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with("part33, ... (30 in all)")) << text;
}

TEST(SelectionAdviceTest, ExpressionsAreWholeNames) {
  EXPECT_EQ(answer("", "", "", "down_proj"),
            "--tensors 'down_proj' is the whole name of none of the 12 tensors; "
            "--tensors '.*down_proj.*' takes 5 matrices");
  EXPECT_EQ(answer("", "", "", "down|embed"),
            "--tensors 'down|embed' is the whole name of none of the 12 tensors; "
            "--tensors '.*(down|embed).*' takes 6 matrices");
  EXPECT_EQ(answer("", "", "", "model.layers.3.mlp.dwn_proj.weight"),
            "--tensors 'model.layers.3.mlp.dwn_proj.weight' is the whole name of none of the 12 "
            "tensors; did you mean model.layers.3.mlp.down_proj.weight, "
            "model.layers.0.mlp.down_proj.weight or model.layers.1.mlp.down_proj.weight?");
  EXPECT_EQ(answer("", "", "", "zzz"),
            "--tensors 'zzz' is the whole name of none of the 12 tensors; `vindex inspect "
            "--tensors` lists them");
  EXPECT_EQ(answer("", "", "", "model.norm.weight"),
            "--tensors 'model.norm.weight' names model.norm.weight, which is not a matrix: 1-D");
  // As long as an expression may be, so that nothing can be put around it.
  EXPECT_NE(answer("", "", "", std::string(1024, 'a')).find("inspect --tensors"),
            std::string::npos);
}

TEST(SelectionAdviceTest, OptionsThatExcludeEachOtherAreTold) {
  EXPECT_EQ(answer("0", "embedding", "", ""),
            "no matrix is in these --layers and fits the other options; those that fit them are in "
            "layers -1 (no layer) only");
  EXPECT_EQ(answer("", "attention", "down_proj", ""),
            "no matrix has these --roles and fits the other options; those that fit them have the "
            "roles q_proj");
}

TEST(SelectionAdviceTest, APartThatNamesNothingIsToldThoughOthersDo) {
  const ModelIndex index = small_model();
  EXPECT_TRUE(unmatched_parts(index, parse_selection("0-3", "attention", "q_proj", ".*")).empty());
  const auto parts = unmatched_parts(index, parse_selection("0,9", "", "down_proj,up_proj", ""));
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(parts[0].rfind("--layers 9: ", 0), 0U) << parts[0];
  EXPECT_EQ(parts[1].rfind("--roles up_proj: ", 0), 0U) << parts[1];
}

TEST(SelectionAdviceTest, HostileNamesStayOneShortLine) {
  ModelFixture fixture;
  for (int i = 0; i < 100; ++i) {
    fixture.bf16(
        std::string(5000, static_cast<char>('a' + i % 26)) + "\x1b[31m\n" + std::to_string(i),
        {4, 4});
  }
  const ModelIndex index = fixture.index();
  for (const auto& selection :
       {parse_selection("", "", "abc", ""), parse_selection("", "", "", "abc"),
        parse_selection("7", "", "", "")}) {
    const std::string text = empty_selection_text(index, selection);
    EXPECT_EQ(printable(text), text);
    EXPECT_LT(text.size(), 10'000U);
  }
}

TEST(UnmeasuredTest, TensorsOfManySidesAreCountedAndVectorsAreNot) {
  ModelFixture fixture;
  fixture.bf16("model.norm.weight", {4});
  fixture.bf16("model.layers.0.mlp.down_proj.weight", {4, 8});
  EXPECT_EQ(unmeasured_text(fixture.index()), "");
  fixture.bf16("conv_in.weight", {8, 3, 3, 3});
  EXPECT_EQ(unmeasured_text(fixture.index()),
            "1 tensor of rank 3 or more stands unmeasured: 1 convolution, for example "
            "conv_in.weight; --reshape out measures them as out x rest");
  fixture.bf16("down.0.conv.weight", {8, 8, 3, 3});
  fixture.bf16("something.weight", {2, 3, 4});
  EXPECT_EQ(unmeasured_text(fixture.index()),
            "3 tensors of rank 3 or more stand unmeasured: 1 3-D, no known stack, 2 convolution, "
            "for example conv_in.weight; --reshape out measures them as out x rest");
}

}  // namespace
}  // namespace vindex::model::selection_advice_test
