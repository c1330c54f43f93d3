// Recipes by hand: whose weights stand where afterwards, and what the keys say.
#include "organ_fixture.hpp"

#include "organ/assemble/assemble.hpp"
#include "organ/extract/extract.hpp"
#include "organ/opening/open_gguf.hpp"
#include "organ/source/gguf_source.hpp"
#include "organ/verify/verify.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/file_content.hpp"
#include "tests/support/temporary_folder.hpp"

#include <gtest/gtest.h>

#include <filesystem>

namespace vindex::organ::recipe_test {
namespace {

using testing::error_of;
using testing::TemporaryFolder;

/// Two models: a has 3 blocks of weights 1, 2, 3; b has 4 of 11, 12, 13, 14.
class RecipeTest : public ::testing::Test {
 protected:
  RecipeTest() {
    folder.write("a.gguf", small_llama(3, 1.0F, true).bytes());
    folder.write("b.gguf", small_llama(4, 11.0F, true).bytes());
  }
  AssembleReport run(const std::string& members) {
    AssembleSettings settings;
    settings.input = folder.write(
        "r.json", R"({"schema":"organ-recipe/1","donors":{"a":"a.gguf","b":"b.gguf"},"host":"a",)" +
                      members + "}");
    settings.output = folder / "out.gguf";
    settings.replace = true;
    AssembleReport report = assemble(settings);
    made = open_gguf(settings.output);
    VerifySettings check;
    check.path = settings.output;
    EXPECT_EQ(verify(check).errors, 0U);
    return report;
  }
  std::string error(const std::string& members) {
    return error_of([&] { run(members); });
  }
  /// The first weight of a tensor.
  float weight(const std::string& name) const {
    float value = 0.0F;
    const auto place = made->find(name);
    EXPECT_TRUE(place.has_value()) << name;
    made->read(made->tensors()[place.value_or(0)], 0, std::as_writable_bytes(std::span(&value, 1)));
    return value;
  }

  TemporaryFolder folder;
  std::unique_ptr<GgufSource> made;
};

TEST_F(RecipeTest, RulesTakeWhatTheyCover) {
  const AssembleReport report = run(
      R"("name":"chimera","rules":[{"from":"b","type":"organ","layers":"1-2"},)"
      R"({"from":"b","type":"skeleton","layers":"0","map":"0:3","tensors":"blk\\..*\\.attn_q\\.weight"}])");
  EXPECT_EQ(weight("blk.0.ffn_up.weight"), 1.0F);
  EXPECT_EQ(weight("blk.1.ffn_up.weight"), 12.0F);
  EXPECT_EQ(weight("blk.2.ffn_gate.weight"), 13.0F);
  EXPECT_EQ(weight("blk.0.attn_q.weight"), 14.0F);
  EXPECT_EQ(weight("blk.0.attn_k.weight"), 1.0F);
  EXPECT_EQ(weight("token_embd.weight"), 1.0F);
  EXPECT_EQ(made->number("llama.block_count"), 3U);
  EXPECT_EQ(made->text("general.name"), "chimera");
  EXPECT_EQ(made->text("general.base_model.0.name"), "small 1");
  EXPECT_EQ(made->text("general.base_model.1.name"), "small 11");
  EXPECT_EQ(report.notes,
            (std::vector<std::string>{"rules[0]: 6 tensors of b", "rules[1]: 1 tensors of b"}));
}

TEST_F(RecipeTest, LaterRulesStandOverEarlierOnes) {
  run(R"("rules":[{"from":"b","type":"organ"},{"from":"a","type":"organ","layers":"1"}])");
  EXPECT_EQ(weight("blk.0.ffn_up.weight"), 11.0F);
  EXPECT_EQ(weight("blk.1.ffn_up.weight"), 2.0F);
}

TEST_F(RecipeTest, BlocksAreStackedAndArraysFollow) {
  run(R"("layers":[["a","0-1"],["b","2-3"],["a","2"]])");
  EXPECT_EQ(made->number("llama.block_count"), 5U);
  EXPECT_EQ(made->key("llama.block_count")->type, gguf::ValueType::kU32);
  const std::vector<float> wanted = {1.0F, 2.0F, 13.0F, 14.0F, 3.0F};
  for (std::size_t block = 0; block < wanted.size(); ++block) {
    EXPECT_EQ(weight("blk." + std::to_string(block) + ".attn_v.weight"), wanted[block]);
  }
  const gguf::Key* heads = made->key("llama.attention.head_count_kv");
  EXPECT_EQ(heads->element_type, gguf::ValueType::kI32);
  EXPECT_EQ(heads->integers, (std::vector<std::int64_t>{100, 101, 1102, 1103, 102}));
  EXPECT_EQ(made->tensors().size(), 2U + 5U * 9U);
  EXPECT_EQ(made->tensors().back().name, "output_norm.weight");
}

TEST_F(RecipeTest, FewerBlocksAreAModelToo) {
  run(R"("layers":[["a","0"],["a","2"]])");
  EXPECT_EQ(made->number("llama.block_count"), 2U);
  EXPECT_EQ(made->key("llama.attention.head_count_kv")->integers,
            (std::vector<std::int64_t>{100, 102}));
  EXPECT_EQ(weight("blk.1.ffn_down.weight"), 3.0F);
}

TEST_F(RecipeTest, TheLargestThetaWins) {
  folder.write("a.json", R"({"schema":"organ-measure/1","tensors":[
    {"name":"blk.0.ffn_up.weight","theta":30.5},{"name":"blk.1.ffn_up.weight","theta":10},
    {"name":"blk.2.ffn_up.weight","theta":{"mean":50.0}},{"name":"blk.0.ffn_norm.weight","theta":null}]})");
  folder.write("b.json", R"({"schema":"organ-measure/1","tensors":[
    {"name":"blk.0.ffn_up.weight","theta":30.0},{"name":"blk.1.ffn_up.weight","theta":10.5},
    {"name":"blk.2.ffn_up.weight","theta":50.0}]})");
  const AssembleReport report =
      run(R"("policy":{"name":"best_theta","reports":{"b":"b.json","a":"a.json"}})");
  EXPECT_EQ(weight("blk.0.ffn_up.weight"), 1.0F);
  EXPECT_EQ(weight("blk.1.ffn_up.weight"), 12.0F);
  EXPECT_EQ(weight("blk.2.ffn_up.weight"), 3.0F) << "of equal ones the host's stays";
  EXPECT_EQ(weight("blk.1.ffn_down.weight"), 2.0F) << "not measured: the host's";
  EXPECT_EQ(report.notes.size(), 3U);
  EXPECT_EQ(error(R"("policy":{"name":"best_theta","reports":{"a":"a.json"}})"), "E-RECIPE");
  folder.write("b.json", R"({"tensors":[{"name":"x","theta":91}]})");
  EXPECT_EQ(error(R"("policy":{"name":"best_theta","reports":{"b":"b.json","a":"a.json"}})"),
            "E-THETA");
}

TEST_F(RecipeTest, DonorsMayBeOrgansOfASelection) {
  ExtractSettings settings;
  settings.model = folder / "b.gguf";
  settings.output = folder / "part";
  settings.types = "organ";
  extract(settings);
  std::filesystem::remove(folder / "b.gguf");
  std::filesystem::rename(folder / "part", folder / "b.gguf");
  run(R"("rules":[{"from":"b","type":"organ","layers":"0"}])");
  EXPECT_EQ(weight("blk.0.ffn_up.weight"), 11.0F);
  EXPECT_EQ(error(R"("rules":[{"from":"b","type":"norm"}])"), "E-RECIPE-TENSORS");
}

TEST_F(RecipeTest, WhatCannotBeIsRefused) {
  EXPECT_EQ(error(R"("rules":[{"from":"c","type":"organ"}])"), "E-RECIPE");
  EXPECT_EQ(error(R"("rules":[{"from":"b","type":"organs"}])"), "E-ORGAN-TYPE");
  EXPECT_EQ(error(R"("rules":[{"from":"b","layers":"x"}])"), "E-SELECTION");
  EXPECT_EQ(error(R"("rules":[{"from":"b","map":"0-1"}])"), "E-MAP");
  EXPECT_EQ(error(R"("rules":[{"from":"b","type":"adapter"}])"), "E-RECIPE-RULE");
  EXPECT_EQ(error(R"("rules":[{"from":"b","layers":"2","map":"2:9"}])"), "E-RECIPE-TENSORS");
  EXPECT_EQ(error(R"("rules":[{"from":"b","layers":"2","map":"2:9","allow_missing":true}])"),
            "E-RECIPE-RULE");
  EXPECT_EQ(error(R"("layers":[["a","0-3"]])"), "E-RECIPE-LAYERS");
  EXPECT_EQ(error(R"("layers":[["a","0-1,2"]])"), "E-RECIPE");
  EXPECT_EQ(error(R"("layers":[["a"]])"), "E-RECIPE");
  EXPECT_EQ(error(R"("lairs":[])"), "E-RECIPE");
  EXPECT_EQ(error(R"("policy":{"name":"worst","reports":{}})"), "E-RECIPE");
  folder.write("b.gguf", testing::small_gguf().bytes());
  EXPECT_EQ(error(R"("layers":[["a","0"],["b","0"]])"), "E-RECIPE-KEYS");
  Canonical other;
  other.builder.key_string("general.architecture", "qwen2");
  other.floats("blk.0.ffn_up.weight", {8, 8}, 1.0F);
  folder.write("b.gguf", other.bytes());
  EXPECT_EQ(error(R"("rules":[{"from":"b","layers":"0"}])"), "E-RECIPE-ARCHITECTURE");
}

TEST_F(RecipeTest, MembersThatAreMisspeltAreNamedWithTheRightOne) {
  const auto what = [&](const std::string& members) {
    try {
      run(members);
    } catch (const Error& refused) {
      EXPECT_EQ(refused.id(), "E-RECIPE");
      return std::string(refused.what());
    }
    return std::string("nothing refused");
  };
  const auto says = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  const std::string rule = what(R"("rules":[{"from":"b","type":"organ","layer":"1"}])");
  EXPECT_TRUE(says(rule, "rules[0].layer") && says(rule, "layers")) << rule;
  const std::string policy = what(R"("policy":{"name":"best_theta","reports":{},"tensor":"x"})");
  EXPECT_TRUE(says(policy, "policy.tensor") && says(policy, "tensors")) << policy;
  const std::string top = what(R"("rule":[])");
  EXPECT_TRUE(says(top, "rules")) << top;
  EXPECT_FALSE(std::filesystem::exists(folder / "out.gguf"));
  run(R"("rules":[{"from":"b","type":"organ","layers":"1","comment":"why"}])");
}

TEST_F(RecipeTest, WhatARecipeReadsIsNotWrittenOver) {
  const std::string report = R"({"tensors":[{"name":"blk.0.ffn_up.weight","theta":30.5}]})";
  folder.write("a.json", report);
  folder.write("b.json", report);
  AssembleSettings settings;
  settings.input = folder.write(
      "r.json", R"({"schema":"organ-recipe/1","donors":{"a":"a.gguf","b":"b.gguf"},"host":"a",)"
                R"("policy":{"name":"best_theta","reports":{"b":"b.json","a":"a.json"}}})");
  settings.replace = true;
  for (const char* name : {"a.json", "b.json", "r.json", "a.gguf", "b.gguf"}) {
    settings.output = folder / name;
    EXPECT_EQ(error_of([&] { assemble(settings); }), "E-OUTPUT-SOURCE") << name;
  }
}

TEST_F(RecipeTest, OtherShapesAreListed) {
  Canonical other = small_llama(0, 5.0F);
  other.floats("blk.0.ffn_up.weight", {8, 9}, 5.0F);
  folder.write("b.gguf", other.bytes());
  try {
    run(R"("rules":[{"from":"b","layers":"0","tensors":".*ffn_up.*"}])");
    FAIL();
  } catch (const Error& refused) {
    EXPECT_EQ(refused.id(), "E-RECIPE-TENSORS");
    EXPECT_EQ(refused.exit_code(), ExitCode::kBadConfiguration);
    EXPECT_NE(std::string(refused.what()).find("blk.0.ffn_up.weight: [8, 9], the host's is [8, 8]"),
              std::string::npos)
        << refused.what();
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "out.gguf"));
}

TEST_F(RecipeTest, NextTokenBlocksStayTheLast) {
  const auto model = [](float value) {
    Canonical next = small_llama(2, value);
    next.builder.key_u32("llama.nextn_predict_layers", 1)
        .key_u32("llama.leading_dense_block_count", 1);
    return next.bytes();
  };
  folder.write("a.gguf", model(1.0F));
  folder.write("b.gguf", model(11.0F));
  run(R"("layers":[["a","0"],["a","1"]])");
  EXPECT_EQ(made->number("llama.nextn_predict_layers"), 1U);
  EXPECT_EQ(made->number("llama.leading_dense_block_count"), 1U);
  run(R"("layers":[["a","0"],["b","0"],["a","1"]])");
  EXPECT_EQ(made->number("llama.leading_dense_block_count"), 2U);
  run(R"("layers":[["a","0"],["b","0"]])");
  EXPECT_EQ(made->number("llama.nextn_predict_layers"), 0U);
  EXPECT_EQ(error(R"("layers":[["a","1"],["b","0"]])"), "E-RECIPE-LAYERS");
}

}  // namespace
}  // namespace vindex::organ::recipe_test
