// `vindex organ graft`: real quantisations of one model, made models for every refusal, and that
// nothing is written where nothing should be.
#include "tests/support/float_model.hpp"
#include "tests/support/program/program_fixture.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace vindex::organ_graft_cli_test {
namespace {

using nlohmann::json;
using testing::FloatTensor;
using testing::GgufBuilder;
using testing::noise_tensor;

class OrganGraftTest : public testing::ProgramTest {
 protected:
  using Words = std::vector<std::string>;
  struct Made {
    unsigned seed = 1;  ///< of the weights: another one is an unrelated model
    float drift = 0.0F;
    int blocks = 3;
    std::int64_t width = 32;
    bool tied = true;
    std::string architecture = "llama";
    float rope_base = 10000.0F;
    std::string tokens = "abc";
  };

  /// A small dense model in F32.
  std::string made(const std::string& name, const Made& made) {
    std::vector<FloatTensor> tensors;
    unsigned number = 0;
    const auto add = [&](const std::string& tensor, std::vector<std::int64_t> shape) {
      tensors.push_back(noise_tensor(tensor, shape, 1000 * made.seed + number));
      const FloatTensor step = noise_tensor(tensor, shape, 777777 + number++);
      for (std::size_t i = 0; i < step.values.size(); ++i) {
        tensors.back().values[i] += made.drift * step.values[i];
      }
    };
    add("token_embd.weight", {3, made.width});
    add("output_norm.weight", {made.width});
    if (!made.tied) {
      add("output.weight", {3, made.width});
    }
    for (int block = 0; block < made.blocks; ++block) {
      const std::string prefix = "blk." + std::to_string(block) + ".";
      add(prefix + "attn_q.weight", {made.width, made.width});
      add(prefix + "ffn_norm.weight", {made.width});
      add(prefix + "ffn_up.weight", {2 * made.width, made.width});
      add(prefix + "ffn_down.weight", {made.width, 2 * made.width});
    }
    testing::write_gguf(folder_.file(name), tensors, [&](GgufBuilder& builder) {
      builder.key_string("general.architecture", made.architecture);
      builder.key_string("general.name", name);
      builder.key_u32(made.architecture + ".block_count", static_cast<std::uint32_t>(made.blocks));
      builder.key(made.architecture + ".rope.freq_base", 6,
                  builder.number(std::bit_cast<std::uint32_t>(made.rope_base)));
      std::string elements;
      for (const char token : made.tokens) {
        elements += builder.text(std::string(1, token));
      }
      builder.key_array("tokenizer.ggml.tokens", 8, made.tokens.size(), elements);
    });
    return folder_.file(name);
  }

  testing::ProgramResult graft(const std::string& donor, const std::string& host, const Words& more,
                               const std::string& out = "out.gguf") {
    Words words = {"organ", "graft", "--source", donor, "--target", host, "-o", folder_.file(out)};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }
  json diff(const std::string& a, const std::string& b) {
    const auto result = run({"organ", "diff", a, b, "--json"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return json::parse(result.out);
  }
  /// Names of the tensors that two models do not share, byte for byte.
  std::set<std::string> changed(const std::string& a, const std::string& b) {
    std::set<std::string> names;
    const json found = diff(a, b);
    for (const auto& tensor : found["tensors"]) {
      if (tensor["state"] != "same-bytes") {
        names.insert(tensor["name"]);
      }
    }
    for (const char* side : {"only_a", "only_b"}) {
      for (const auto& tensor : found[side]) {
        names.insert(tensor["name"]);
      }
    }
    return names;
  }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      const std::string name = entry.path().filename().string();
      if (!name.starts_with("stream.")) {
        names.push_back(name);
      }
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  const std::string q4_ = data_ + "/gguf/full/kjv-moe-Q4_K_M.gguf";
  const std::string q8_ = data_ + "/gguf/split/kjv-moe-Q8_0-00001-of-00005.gguf";
};

TEST_F(OrganGraftTest, OrgansOfAnotherQuantisation) {
  VINDEX_NEEDS(q4_);
  const auto result = graft(q8_, q4_, {"--layers", "1-2", "--type", "organ"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const std::string out = folder_.file("out.gguf");
  const json to_host = diff(q4_, out);
  int taken = 0;
  for (const auto& tensor : to_host["tensors"]) {
    const std::string name = tensor["name"];
    const bool is_grafted = (name.starts_with("blk.1.") || name.starts_with("blk.2.")) &&
                            name.find("ffn_") != std::string::npos &&
                            name.find("norm") == std::string::npos &&
                            name.find("inp") == std::string::npos;
    EXPECT_EQ(tensor["state"] == "different", is_grafted) << name;
    EXPECT_EQ(tensor["b"]["type"] == "Q8_0", is_grafted) << name;
    taken += is_grafted ? 1 : 0;
  }
  EXPECT_EQ(taken, 12);
  EXPECT_TRUE(to_host["only_a"].empty() && to_host["only_b"].empty());
  // From the donor's side the same tensors are its own, byte for byte.
  for (const auto& tensor : diff(q8_, out)["tensors"]) {
    if (tensor["b"]["type"] == "Q8_0") {
      EXPECT_EQ(tensor["state"], "same-bytes") << tensor["name"];
    }
  }
  // What it says it is: the majority's type, its parents, no imatrix of values that are gone.
  std::set<std::string> keys;
  for (const auto& key : to_host["keys"]) {
    keys.insert(key["change"].get<std::string>() + " " + key["name"].get<std::string>());
  }
  for (const char* key :
       {"changed general.file_type", "changed general.name", "added general.base_model.count",
        "added general.base_model.1.name", "added general.tags", "added organ.history",
        "removed quantize.imatrix.file"}) {
    EXPECT_TRUE(keys.contains(key)) << key;
  }
  must({"inspect", out});
}

TEST_F(OrganGraftTest, SplitsInAndOut) {
  VINDEX_NEEDS(q4_);
  const auto result =
      graft(q4_, q8_, {"--type", "skeleton,embed", "--shards", "2MB", "--json"}, "s.gguf");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json report = json::parse(result.out);
  EXPECT_EQ(report["schema"], "organ-graft/1");
  EXPECT_EQ(report["outcome"], "written");
  EXPECT_EQ(report["host"]["files"], 5);
  ASSERT_GT(report["output"]["files"].size(), 1U);
  const std::string first = report["output"]["files"][0];
  for (const auto& tensor : diff(q8_, first)["tensors"]) {
    const bool taken = tensor["class"] == "skeleton" || tensor["class"] == "embed";
    EXPECT_EQ(tensor["state"] == "different", taken) << tensor["name"];
  }
}

TEST_F(OrganGraftTest, ExtractedFoldersAreModels) {
  VINDEX_NEEDS(q4_);
  must({"organ", "extract", q8_, "-o", folder_.file("donor")});
  must({"organ", "extract", q4_, "-o", folder_.file("host"), "--by-reference"});
  ASSERT_EQ(graft(q8_, q4_, {"--type", "organ", "--layers", "1"}, "1.gguf").exit_code, 0);
  const auto result = graft(folder_.file("donor"), folder_.file("host"),
                            {"--type", "organ", "--layers", "1"}, "2.gguf");
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(testing::file_text(folder_.file("1.gguf")), testing::file_text(folder_.file("2.gguf")));
  must({"organ", "diff", q8_, folder_.file("donor"), "--exit-code"});
}

TEST_F(OrganGraftTest, AnOrganThatIsNotAsItsManifestSaysIsRefused) {
  VINDEX_NEEDS(q4_);
  must({"organ", "extract", q8_, "-o", folder_.file("donor")});
  const std::string organ = folder_.file("donor/organs/blk_1_ffn_down_exps.bin");
  std::string bytes = testing::file_text(organ);
  bytes[bytes.size() / 2] ^= 1;
  std::ofstream(organ, std::ios::binary) << bytes;
  const auto result =
      graft(folder_.file("donor"), q4_, {"--type", "organ", "--layers", "1"}, "1.gguf");
  EXPECT_EQ(result.exit_code, 65);
  EXPECT_NE(result.err.find("E-ORGAN-DIGEST"), std::string::npos) << result.err;
  EXPECT_FALSE(std::filesystem::exists(folder_.file("1.gguf")));
}

TEST_F(OrganGraftTest, OtherContainersAreConverted) {
  const std::string big = data_ + "/gguf/variants/q4_K.be.gguf";
  const std::string little = data_ + "/gguf/conformance/q4_K.gguf";
  VINDEX_NEEDS(big);
  EXPECT_TRUE(changed(big, little).empty());
  ASSERT_EQ(graft(big, little, {"--type", "all"}, "1.gguf").exit_code, 0);
  ASSERT_EQ(graft(little, big, {"--type", "organ"}, "2.gguf").exit_code, 0);
  EXPECT_TRUE(changed(little, folder_.file("1.gguf")).empty());
  EXPECT_TRUE(changed(little, folder_.file("2.gguf")).empty());
}

TEST_F(OrganGraftTest, ADryRunWritesNothing) {
  const std::string host = made("host.gguf", {});
  const std::string donor = made("donor.gguf", {.drift = 0.1F});
  const auto before = files();
  const auto result = graft(donor, host, {"--type", "organ", "--dry-run"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("dry-run"), std::string::npos);
  EXPECT_EQ(files(), before);
  EXPECT_EQ(
      run({"organ", "graft", "--source", donor, "--target", host, "--type", "organ", "--dry-run"})
          .exit_code,
      0);
  EXPECT_EQ(
      run({"organ", "graft", "--source", donor, "--target", host, "--type", "organ"}).exit_code,
      64);
}

TEST_F(OrganGraftTest, FineTunesPassAndStrangersDoNot) {
  const std::string host = made("host.gguf", {});
  const std::string tuned = made("tuned.gguf", {.drift = 0.2F});
  const std::string far = made("far.gguf", {.drift = 3.0F});
  const std::string stranger = made("stranger.gguf", {.seed = 2});
  const auto levels = [&](const testing::ProgramResult& result) {
    std::set<std::string> found;
    const json report = json::parse(result.out);
    for (const auto& finding : report["findings"]) {
      found.insert(finding["level"].get<std::string>());
    }
    return found;
  };
  const auto good = graft(tuned, host, {"--type", "organ", "--json"}, "good.gguf");
  EXPECT_EQ(good.exit_code, 0) << good.err;
  EXPECT_EQ(levels(good), (std::set<std::string>{"note"}));
  const auto doubtful = graft(far, host, {"--type", "organ", "--json"}, "far-out.gguf");
  EXPECT_EQ(doubtful.exit_code, 0) << doubtful.err;
  EXPECT_EQ(levels(doubtful), (std::set<std::string>{"warn", "note"}));
  const auto before = files();
  const auto refused = graft(stranger, host, {"--type", "organ", "--json"});
  EXPECT_EQ(refused.exit_code, 65);
  EXPECT_NE(refused.err.find("E-GRAFT-REFUSED: ancestry"), std::string::npos) << refused.err;
  EXPECT_EQ(json::parse(refused.out)["outcome"], "refused");
  EXPECT_EQ(files(), before);
  EXPECT_EQ(graft(stranger, host, {"--type", "organ", "--accept-findings"}).exit_code, 0);
}

TEST_F(OrganGraftTest, AMapMovesBlocksAndJudgesTheModels) {
  const std::string host = made("host.gguf", {.blocks = 5});
  const std::string donor = made("donor.gguf", {.drift = 0.1F, .blocks = 5});
  // The moved blocks are strangers to each other, the models are not.
  const auto result = graft(donor, host, {"--type", "ffn", "--map", "0-1:3-4"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(changed(host, folder_.file("out.gguf")),
            (std::set<std::string>{"blk.3.ffn_up.weight", "blk.3.ffn_down.weight",
                                   "blk.4.ffn_up.weight", "blk.4.ffn_down.weight"}));
  EXPECT_EQ(graft(donor, host, {"--type", "ffn", "--map", "0-1:4-5"}, "x.gguf").exit_code, 64);
  EXPECT_EQ(graft(donor, host, {"--type", "ffn", "--map", "0-1:3-4,1:2"}, "x.gguf").exit_code, 64);
  EXPECT_EQ(graft(donor, host, {"--type", "ffn", "--layers", "0-99"}, "x.gguf").exit_code, 64);
  EXPECT_EQ(graft(donor, host, {"--type", "heart"}, "x.gguf").exit_code, 64);
  const auto nothing = graft(donor, host, {"--type", "embed", "--layers", "0"}, "x.gguf");
  EXPECT_EQ(nothing.exit_code, 64);
  EXPECT_NE(nothing.err.find("E-GRAFT-NOTHING"), std::string::npos) << nothing.err;
  EXPECT_FALSE(std::filesystem::exists(folder_.file("x.gguf")));
}

TEST_F(OrganGraftTest, ShapesAreRefusedWithForceToo) {
  const std::string host = made("host.gguf", {});
  const std::string wide = made("wide.gguf", {.width = 64});
  const auto result =
      graft(wide, host, {"--type", "organ", "--accept-findings", "--allow-missing"});
  EXPECT_EQ(result.exit_code, 65);
  EXPECT_NE(result.out.find("32 x 64 in the host, 64 x 128 in the donor"), std::string::npos)
      << result.out;
  EXPECT_NE(result.out.find("blk.2.ffn_down.weight"), std::string::npos);
  // The cause before what follows from it.
  EXPECT_LT(result.out.find("error shape"), result.out.find("not taken")) << result.out;
  EXPECT_FALSE(std::filesystem::exists(folder_.file("out.gguf")));
}

TEST_F(OrganGraftTest, MetadataThatDiffers) {
  const std::string host = made("host.gguf", {});
  const std::string rope = made("rope.gguf", {.rope_base = 1e6F});
  EXPECT_EQ(graft(rope, host, {"--type", "organ"}, "1.gguf").exit_code, 0);
  EXPECT_EQ(graft(rope, host, {"--type", "skeleton"}, "2.gguf").exit_code, 65);
  EXPECT_EQ(graft(rope, host, {"--type", "skeleton", "--accept-findings"}, "3.gguf").exit_code, 0);
  const std::string words = made("words.gguf", {.tokens = "abd"});
  EXPECT_EQ(graft(words, host, {"--type", "organ"}, "4.gguf").exit_code, 0);
  EXPECT_EQ(graft(words, host, {"--type", "embed"}, "5.gguf").exit_code, 65);
  const std::string qwen = made("qwen.gguf", {.architecture = "qwen2"});
  EXPECT_EQ(graft(qwen, host, {"--type", "organ"}, "6.gguf").exit_code, 65);
}

TEST_F(OrganGraftTest, AnUntiedHeadIsAdded) {
  const std::string host = made("host.gguf", {});
  const std::string untied = made("untied.gguf", {.tied = false});
  // Seeds follow the order of the tensors: only the embedding is the host's own.
  const auto result = graft(untied, host, {"--type", "embed", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(changed(host, folder_.file("out.gguf")), (std::set<std::string>{"output.weight"}));
  EXPECT_NE(result.out.find("tied-embeddings"), std::string::npos);
  EXPECT_EQ(graft(host, untied, {"--type", "embed"}, "x.gguf").exit_code, 65);
  EXPECT_EQ(graft(host, untied, {"--type", "embed", "--allow-missing"}, "y.gguf").exit_code, 0);
}

TEST_F(OrganGraftTest, NothingIsWrittenOver) {
  const std::string host = made("host.gguf", {});
  const std::string donor = made("donor.gguf", {.drift = 0.1F});
  const std::string before = testing::file_text(host);
  for (const char* name : {"host.gguf", "donor.gguf"}) {
    for (const Words& more : {Words{}, Words{"--force"}, Words{"--accept-findings", "--force"}}) {
      Words words = {"--type", "organ"};
      words.insert(words.end(), more.begin(), more.end());
      EXPECT_EQ(graft(donor, host, words, name).exit_code, 73) << name;
    }
  }
  EXPECT_EQ(testing::file_text(host), before);
  std::ofstream(folder_.file("mine.txt")) << "mine";
  const auto refused = graft(donor, host, {"--type", "organ", "--accept-findings"}, "mine.txt");
  EXPECT_EQ(refused.exit_code, 73);
  EXPECT_NE(refused.err.find("--force"), std::string::npos);
  EXPECT_EQ(testing::file_text(folder_.file("mine.txt")), "mine");
  EXPECT_EQ(graft(donor, host, {"--type", "organ", "--force"}, "mine.txt").exit_code, 0);
  // A report does not take the place of a model either.
  EXPECT_EQ(graft(donor, host, {"--type", "organ", "--report", host}, "new.gguf").exit_code, 73);
  EXPECT_EQ(testing::file_text(host), before);
  EXPECT_FALSE(std::filesystem::exists(folder_.file("new.gguf")));
  EXPECT_EQ(
      graft(donor, host, {"--type", "organ", "--report", folder_.file("new.gguf")}, "new.gguf")
          .exit_code,
      64);
  EXPECT_EQ(graft(folder_.file("absent"), host, {"--type", "organ"}, "z.gguf").exit_code, 66);
}

TEST_F(OrganGraftTest, TextFitsEightyColumns) {
  const std::string host = made("host.gguf", {});
  const std::string other = made("other.gguf", {.seed = 2,
                                                .blocks = 2,
                                                .width = 64,
                                                .architecture = "qwen2",
                                                .rope_base = 1e6F,
                                                .tokens = "xyz"});
  const auto result = graft(other, host, {"--type", "all", "--report", folder_.file("r.json")});
  EXPECT_EQ(result.exit_code, 65);
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) {
    if (line.find(folder_.path().string()) == std::string::npos) {  // names stay whole
      EXPECT_LE(line.size(), 80U) << line;
    }
  }
  const json report = json::parse(testing::file_text(folder_.file("r.json")));
  EXPECT_EQ(report["outcome"], "refused");
  EXPECT_GT(report["refused"].size(), 10U);
}

}  // namespace
}  // namespace vindex::organ_graft_cli_test
