// The flags that select matrices: layers, blocks, roles, expressions, and their errors.
#include "model/selection/selection.hpp"

#include "model_fixture.hpp"

#include <ctime>

namespace vindex::model::selection_test {
namespace {

ModelIndex small_model() {
  ModelFixture fixture;
  fixture.config("model_type", "llama");
  fixture.bf16("model.embed_tokens.weight", {9, 4});
  for (const std::string layer : {"0", "1", "2", "10"}) {
    fixture.bf16("model.layers." + layer + ".self_attn.q_proj.weight", {6, 4});
    fixture.bf16("model.layers." + layer + ".mlp.down_proj.weight", {4, 8});
  }
  return fixture.index();
}

std::vector<std::string> names(const ModelIndex& index, const Selection& selection) {
  std::vector<std::string> out;
  for (const std::int64_t i : select(index, selection)) {
    out.push_back(index.matrices[static_cast<std::size_t>(i)].tensor);
  }
  return out;
}

TEST(SelectionTest, NothingGivenSelectsAll) {
  const ModelIndex index = small_model();
  EXPECT_EQ(select(index, Selection{}).size(), 9U);
  EXPECT_EQ(select(index, parse_selection("", "", "", "")).size(), 9U);
}

TEST(SelectionTest, LayersAreNumbersAndClosedRanges) {
  const ModelIndex index = small_model();
  EXPECT_EQ(select(index, parse_selection("0,2-10", "", "", "")).size(), 6U);
  EXPECT_EQ(names(index, parse_selection("-1", "", "", "")),
            std::vector<std::string>{"model.embed_tokens.weight"});
  EXPECT_TRUE(select(index, parse_selection("3-9", "", "", "")).empty());
}

TEST(SelectionTest, ConditionsHoldTogether) {
  const ModelIndex index = small_model();
  EXPECT_EQ(names(index, parse_selection("1,2", "attention,router", "q_proj", "")),
            (std::vector<std::string>{"model.layers.1.self_attn.q_proj.weight",
                                      "model.layers.2.self_attn.q_proj.weight"}));
  EXPECT_TRUE(select(index, parse_selection("1", "attention", "down_proj", "")).empty());
}

TEST(SelectionTest, ExpressionMatchesTheWholeName) {
  const ModelIndex index = small_model();
  EXPECT_TRUE(select(index, parse_selection("", "", "", "down_proj")).empty());
  EXPECT_EQ(select(index, parse_selection("", "", "", ".*down_proj.*")).size(), 4U);
  EXPECT_EQ(names(index, parse_selection("", "", "", R"(model\.layers\.1\..*)")).size(), 2U);
  EXPECT_EQ(select(index, parse_selection("", "", "", R"(.*\.(0|10)\.(self|mlp).*)")).size(), 4U);
}

TEST(SelectionTest, WrongTextsNameTheOptionAndThePart) {
  struct Case {
    std::vector<std::string> texts;
    std::string part;
  };
  for (const Case& c :
       {Case{{"1,,2", "", "", ""}, "--layers: '1,,2'"},
        Case{{"1,", "", "", ""}, "--layers"},
        Case{{"5-3", "", "", ""}, "--layers: '5-3' ends before it begins"},
        Case{{"x", "", "", ""}, "--layers: 'x' is not a layer"},
        Case{{"1-2-3", "", "", ""}, "--layers: '1-2-3' is not a layer"},
        Case{{"99999999999", "", "", ""}, "--layers: '99999999999'"},
        Case{{"", "experts", "", ""}, "--blocks: 'experts' is not a block"},
        Case{{"", "", "a,,b", ""}, "--roles"},
        Case{{"", "", "", "(a"}, "--tensors: '(a' is not a regular expression"},
        Case{{"", "", "", R"((a)\1)"}, "refers back"},
        Case{{"", "", "", "a{1001}"}, "is not a regular expression"},
        Case{{"", "", "", "a{99999999999999999999}"}, "is not a regular expression"},
        Case{{"", "", "", "a{,5}"}, "a brace without a count"},
        Case{{"", "", "", "a{2,5"}, "a brace without a count"},
        Case{{"", "", "", "[]a]"}, "a class without characters"},
        Case{{"", "", "", "((((a{100}){100}){100}){100})"}, "is not a regular expression"},
        Case{{"", "", "", "(?=a)b"}, "looks ahead"},
        Case{{"", "", "", "(?!a)b"}, "looks ahead"},
        Case{{"", "", "", "(?<=a)b"}, "looks ahead or behind"},
        Case{{"", "", "", std::string(1025, 'a')}, "longer than 1024"}}) {
    SCOPED_TRACE(c.part);
    try {
      parse_selection(c.texts[0], c.texts[1], c.texts[2], c.texts[3]);
      FAIL();
    } catch (const UsageError& error) {
      EXPECT_NE(std::string(error.what()).find(c.part), std::string::npos) << error.what();
      EXPECT_EQ(error.exit_code(), ExitCode::kUsage);
    }
  }
}

TEST(SelectionTest, ExpressionsThatMakeOthersBacktrackEndSoon) {
  ModelFixture fixture;
  fixture.config("model_type", "llama");
  fixture.bf16(std::string(1024, 'a'), {2, 3});
  fixture.bf16(std::string(1025, 'a'), {2, 3});
  const ModelIndex index = fixture.index();
  const std::clock_t start = std::clock();  // of this process: others may keep it waiting
  for (const char* pattern : {"(a+)+b", "(a|a)*b", "a*a*a*a*a*a*a*a*b", "((a{1,20}){1,20})b"}) {
    EXPECT_TRUE(select(index, parse_selection("", "", "", pattern)).empty());
  }
  EXPECT_LT(std::clock() - start, 10 * CLOCKS_PER_SEC);
  EXPECT_EQ(select(index, parse_selection("", "", "", "a*")).size(), 2U);
}

TEST(SelectionTest, ExpressionsAreEcmaScriptsOverBytes) {
  ModelFixture fixture;
  fixture.config("model_type", "llama");
  fixture.bf16("model.layers.12.mlp.up_proj.weight", {2, 3});
  fixture.bf16("caf\xC3\xA9.w\xFFx", {2, 3});
  const ModelIndex index = fixture.index();
  for (const auto& [pattern, matches] : std::vector<std::pair<std::string, std::size_t>>{
           {R"(model\.layers\.\d+\.(?:mlp|ffn)\.\w+_proj\.weight)", 1},
           {R"([^.]+\.layers\.[0-9]{2}\..*?weight)", 1},
           {R"(^model\b.*t$)", 1},
           {R"(MODEL.*)", 0},
           {R"(model.layers.1.*|nothing)", 1},
           {"caf\xC3\xA9\\.w.x", 1},
           {R"(caf..\.\S+)", 1},
           {R"(\D*)", 1}}) {
    EXPECT_EQ(select(index, parse_selection("", "", "", pattern)).size(), matches) << pattern;
  }
}

}  // namespace
}  // namespace vindex::model::selection_test
