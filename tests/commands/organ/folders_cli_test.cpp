// Commands of organs on extracted folders: each gives what it gives of the model itself.
#include "tests/support/float_model.hpp"
#include "tests/support/program/program_fixture.hpp"

#include <nlohmann/json.hpp>

#include <filesystem>

namespace vindex::testing::folders_cli_test {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

class OrganFolders : public ProgramTest {
 protected:
  void SetUp() override {
    for (const auto& [name, seed] : {std::pair{"a", 1U}, {"b", 1U}}) {
      (void)built(folder_.file(std::string(name) + ".gguf"), seed, name);
      must({"-q", "organ", "extract", folder_.file(std::string(name) + ".gguf"), "-o",
            folder_.file(name)});
    }
  }
  /// Two models of one ancestor: `name` b has other feed-forward matrices.
  static std::string built(const std::string& path, unsigned seed, const std::string& name) {
    std::vector<FloatTensor> tensors = {noise_tensor("token_embd.weight", {96, 64}, seed + 1),
                                        noise_tensor("output_norm.weight", {64}, seed + 2)};
    for (const std::string block : {"blk.0.", "blk.1."}) {
      for (const char* matrix :
           {"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up"}) {
        tensors.push_back(noise_tensor(block + matrix + ".weight", {64, 64}, ++seed + 10));
        const bool other = name == "b" && std::string(matrix).starts_with("ffn");
        for (std::size_t i = 0; i < tensors.back().values.size(); ++i) {
          tensors.back().values[i] += other ? 0.05F * static_cast<float>(i % 3) : 0.2F;
        }
      }
      tensors.push_back(noise_tensor(block + "attn_norm.weight", {64}, ++seed));
    }
    write_gguf(path, tensors, [&](GgufBuilder& file) {
      file.key_string("general.architecture", "llama").key_string("general.name", name);
      file.key_u32("llama.block_count", 2).key_u32("llama.context_length", 4096);
      file.key_u32("llama.attention.head_count", 8).key_u32("llama.attention.head_count_kv", 2);
      file.key_u32("llama.embedding_length", 64);
    });
    return path;
  }
  Json measure(const std::string& model, const std::string& name) {
    must({"-q", "organ", "measure", model, "-o", folder_.file("out-" + name)});
    return Json::parse(file_text(folder_.file("out-" + name + "/" + name + ".measure.json")));
  }
  std::string text(const std::string& name) { return file_text(folder_.file(name)); }

  const std::vector<std::string> purify_ = {"--cap", "1", "--type", "ffn", "-q"};
};

TEST_F(OrganFolders, MeasureGivesTheFiguresOfTheModel) {
  Json file = measure(folder_.file("a.gguf"), "a");
  fs::rename(folder_.file("out-a"), folder_.file("out-file"));
  Json folder = measure(folder_.file("a"), "a");
  EXPECT_EQ(file["tensors"], folder["tensors"]);
  EXPECT_EQ(file["groups"], folder["groups"]);
  EXPECT_EQ(file["attention"], folder["attention"]);
  EXPECT_EQ(folder["attention"]["kv_heads"], 2);
  EXPECT_EQ(folder["attention"]["context_length"], 4096);
  EXPECT_EQ(folder["tensors_total"], 16);
  must({"-q", "organ", "extract", folder_.file("a.gguf"), "-o", folder_.file("ref"),
        "--by-reference"});
  EXPECT_EQ(measure(folder_.file("ref"), "ref")["tensors"], file["tensors"]);
  must({"-q", "organ", "extract", folder_.file("a.gguf"), "-o", folder_.file("ffn"), "--type",
        "ffn"});
  EXPECT_EQ(measure(folder_.file("ffn"), "ffn")["tensors"].size(), 4U);
}

TEST_F(OrganFolders, MeasureTakesOrgansOfSafetensors) {
  fs::create_directory(folder_.file("hf"));
  write_safetensors(folder_.file("hf/model.safetensors"),
                    {noise_tensor("model.embed_tokens.weight", {96, 64}, 1),
                     noise_tensor("model.layers.0.self_attn.q_proj.weight", {64, 64}, 2),
                     noise_tensor("model.layers.0.mlp.gate_proj.weight", {128, 64}, 3),
                     noise_tensor("model.norm.weight", {64}, 4)});
  std::ofstream(folder_.file("hf/config.json"))
      << R"({"model_type":"qwen2","max_position_embeddings":32768,"num_key_value_heads":4,)"
      << R"("rope_theta":1000000.0,"rope_scaling":{"type":"yarn","factor":4.0}})";
  must({"-q", "organ", "extract", folder_.file("hf"), "-o", folder_.file("organs")});
  const Json file = measure(folder_.file("hf"), "hf");
  const Json folder = measure(folder_.file("organs"), "organs");
  EXPECT_EQ(file["tensors"], folder["tensors"]);
  EXPECT_EQ(file["arch"], "qwen2");
  EXPECT_EQ(file["attention"], folder["attention"]);
  EXPECT_EQ(file["attention"]["rope"]["scaling"], "yarn");
  EXPECT_EQ(file["attention"]["rope"]["factor"], 4.0);
  EXPECT_EQ(run({"organ", "diff", folder_.file("hf"), folder_.file("organs")}).exit_code, 0);
}

TEST_F(OrganFolders, PurifyGivesTheOrgansOfThePurifiedModel) {
  const auto purify = [&](const std::string& model, const std::string& out, int code = 0) {
    std::vector<std::string> words = {"organ", "purify", folder_.file(model), "-o",
                                      folder_.file(out)};
    words.insert(words.end(), purify_.begin(), purify_.end());
    must(words, code);
  };
  purify("a.gguf", "pure.gguf");
  purify("a", "pure");
  must({"-q", "organ", "assemble", folder_.file("pure"), "-o", folder_.file("again.gguf")});
  EXPECT_EQ(text("again.gguf"), text("pure.gguf"));
  EXPECT_NE(text("again.gguf"), text("a.gguf"));
  must({"organ", "verify", folder_.file("pure"), "--check-tensors"});
  purify("a.gguf", "slash/");
  must({"-q", "organ", "assemble", folder_.file("slash"), "-o", folder_.file("s.gguf")});
  EXPECT_EQ(text("s.gguf"), text("pure.gguf"));
  purify("a", "whole.gguf");
  EXPECT_EQ(text("whole.gguf"), text("pure.gguf"));
  purify("a", "pure", 73);  // never replaced
  // What was a selection is one.
  must({"-q", "organ", "extract", folder_.file("a.gguf"), "-o", folder_.file("ffn"), "--type",
        "ffn"});
  purify("ffn", "pure-ffn");
  const Json manifest = Json::parse(text("pure-ffn/manifest.json"));
  EXPECT_EQ(manifest["partial"], true);
  EXPECT_EQ(manifest["tensors_total"], 16);
  EXPECT_EQ(
      run({"organ", "assemble", folder_.file("pure-ffn"), "-o", folder_.file("x.gguf")}).exit_code,
      78);
}

TEST_F(OrganFolders, GraftGoesFromFoldersToAFolder) {
  const auto graft = [&](const std::string& donor, const std::string& host, const std::string& out,
                         std::vector<std::string> more = {}, int code = 0) {
    std::vector<std::string> words = {"-q",
                                      "organ",
                                      "graft",
                                      "--source",
                                      folder_.file(donor),
                                      "--target",
                                      folder_.file(host),
                                      "-o",
                                      folder_.file(out),
                                      "--type",
                                      "ffn",
                                      "--name",
                                      "c"};
    words.insert(words.end(), more.begin(), more.end());
    must(words, code);
  };
  graft("b.gguf", "a.gguf", "c.gguf");
  graft("b", "a", "c");
  must({"-q", "organ", "assemble", folder_.file("c"), "-o", folder_.file("again.gguf")});
  EXPECT_EQ(text("again.gguf"), text("c.gguf"));
  must({"organ", "verify", folder_.file("c"), "--check-tensors"});
  graft("b", "a", "c", {}, 73);
  graft("b", "a", "d", {"--shards", "1MB"}, 64);
  EXPECT_FALSE(fs::exists(folder_.file("d")));
  // An organ that was changed by hand is not passed on as what its manifest says.
  std::fstream organ(folder_.file("b/organs/blk_0_ffn_up.bin"),
                     std::ios::in | std::ios::out | std::ios::binary);
  organ.seekp(-8, std::ios::end);
  organ.write("changed!", 8);
  organ.close();
  graft("b", "a", "e", {}, 65);
  EXPECT_FALSE(fs::exists(folder_.file("e")));
}

}  // namespace
}  // namespace vindex::testing::folders_cli_test
