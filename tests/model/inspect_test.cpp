// What `vindex inspect` says, as text and as JSON, with hostile names.
#include "model/inspect/inspect.hpp"

#include "model_fixture.hpp"

#include <nlohmann/json.hpp>

#include <sstream>

namespace vindex::model::inspect_test {
namespace {

using decode::ElementType;

TEST(InspectJsonTest, HoldsExactlyItsMembersInOrder) {
  ModelFixture fixture;
  fixture.config("model_type", "mixtral");
  fixture.config("num_experts_per_tok", 1);
  fixture.bf16("model.embed_tokens.weight", {9, 4});
  fixture.bf16("model.layers.0.block_sparse_moe.experts.0.w1.weight", {6, 4});
  fixture.bf16("model.layers.0.block_sparse_moe.experts.1.w1.weight", {6, 4});
  fixture.bf16("model.norm.weight", {4});
  fixture.files().warnings.push_back({"W-INDEX-TOTAL-SIZE", "of the files"});
  const ModelIndex index = fixture.index();
  const auto document = nlohmann::ordered_json::parse(inspect_json(fixture.files(), index, false));
  std::vector<std::string> keys;
  for (const auto& [key, value] : document.items()) {
    keys.push_back(key);
  }
  EXPECT_EQ(keys,
            (std::vector<std::string>{"schema", "model", "format", "architecture", "layers",
                                      "experts", "experts_per_token", "shared_experts",
                                      "dense_first_layers", "quantisation", "tensors", "matrices",
                                      "parameters", "bytes", "by_block", "warnings", "attention"}));
  EXPECT_EQ(document["schema"], "vindex-inspect/1");
  EXPECT_EQ(document["format"], "safetensors");
  EXPECT_EQ(document["architecture"], "mixtral");
  EXPECT_EQ(document["layers"], 1);
  EXPECT_EQ(document["experts"], 2);
  EXPECT_EQ(document["tensors"], 4);
  EXPECT_EQ(document["matrices"], 3);
  EXPECT_EQ(document["parameters"], 36 + 24 + 24 + 4);
  EXPECT_EQ(document["bytes"], 2 * (36 + 24 + 24 + 4));
  ASSERT_EQ(document["by_block"].size(), 2U);
  EXPECT_EQ(document["by_block"][1].dump(),
            R"({"block":"routed_expert","role":"gate_proj","encoding":"BF16","matrices":2,)"
            R"("rows":6,"cols":4,"bytes":96})");
  EXPECT_EQ(document["warnings"].dump(), R"([{"id":"W-INDEX-TOTAL-SIZE","text":"of the files"}])");
}

TEST(InspectJsonTest, UnknownNumbersAreNull) {
  const ModelFixture fixture = ModelFixture();
  const auto document = nlohmann::json::parse(
      inspect_json(const_cast<ModelFixture&>(fixture).files(), fixture.index(), false));
  EXPECT_TRUE(document["layers"].is_null());
  EXPECT_TRUE(document["experts"].is_null());
  EXPECT_EQ(document["architecture"], "unknown");
}

TEST(InspectJsonTest, NamesOfAnyBytesStayValidJson) {
  ModelFixture fixture;
  fixture.config("model_type", "llama");
  fixture.bf16("quote\" back\\slash \n.weight", {2, 3});
  fixture.bf16("\xC3\xA9t\xC3\xA9.weight", {2, 3});
  fixture.bf16("bad \xFF\xC0\x80.weight", {2, 3});
  const ModelIndex index = fixture.index();
  const auto document = nlohmann::json::parse(inspect_json(fixture.files(), index, true));
  std::vector<std::string> names;
  for (const auto& tensor : document["tensor_list"]) {
    names.push_back(tensor["name"]);
  }
  EXPECT_EQ(names,
            (std::vector<std::string>{"bad \\xff\\xc0\\x80.weight", "quote\" back\\slash \n.weight",
                                      "\xC3\xA9t\xC3\xA9.weight"}));
}

TEST(InspectTextTest, ControlCharactersOfNamesNeverReachTheTerminal) {
  ModelFixture fixture;
  fixture.config("model_type", "llama");
  fixture.bf16("red \x1b[31m.weight", {2, 3});
  const std::string text = inspect_text(fixture.files(), fixture.index(), true);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_NE(text.find("red \\x1b[31m.weight"), std::string::npos);
}

TEST(InspectTextTest, ColumnsAreAligned) {
  ModelFixture fixture;
  fixture.config("model_type", "llama");
  fixture.bf16("model.layers.0.self_attn.q_proj.weight", {6, 4});
  fixture.bf16("model.layers.0.mlp.gate_proj.weight", {1200, 4});
  const std::string text = inspect_text(fixture.files(), fixture.index(), false);
  EXPECT_NE(text.find("\nblock      role       encoding  count  rows  cols     size\n"
                      "attention  q_proj     BF16          1     6     4     48 B\n"
                      "dense_mlp  gate_proj  BF16          1  1200     4  9.60 kB\n"),
            std::string::npos)
      << text;
}

/// Columns of the widest line.
std::size_t width_of(const std::string& text) {
  std::size_t widest = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    widest = std::max(widest, display_width(line));
  }
  return widest;
}

TEST(InspectTextTest, TablesFitTheTerminalAndListsOfNamesAreWholeWithoutOne) {
  ModelFixture fixture;
  fixture.config("model_type", "deepseek_v3");
  const std::string name = "model.layers.60.mlp.experts.383.down_proj.weight";
  fixture.bf16(name, {716800, 2});
  fixture.bf16("model.layers.60.mlp.shared_experts.gate_up_proj_with_a_long_name.weight", {6, 4});
  const std::string narrow = inspect_text(fixture.files(), fixture.index(), true, {80, 80});
  EXPECT_LE(width_of(narrow), 80U) << narrow;
  EXPECT_NE(narrow.find(name), std::string::npos) << narrow;
  EXPECT_LE(width_of(inspect_text(fixture.files(), fixture.index(), true, {60, 60})), 60U);
  const std::string piped = inspect_text(fixture.files(), fixture.index(), true);
  EXPECT_NE(piped.find(name + "    "), std::string::npos) << piped;
  EXPECT_NE(piped.find("gate_up_proj_with_a_long_name.weight  "), std::string::npos) << piped;
}

}  // namespace
}  // namespace vindex::model::inspect_test
