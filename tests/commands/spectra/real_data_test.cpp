// A trained mixture of experts (DeepSeek-V3 shape) as safetensors and as GGUF, measured and decoded
// by the program: the two containers hold the same weights, so they must give the same numbers.
#include "tests/support/program/h5_support.hpp"
#include "tests/support/program/program_fixture.hpp"

#include <nlohmann/json.hpp>

#include <cmath>
#include <set>

namespace vindex::testing::real_data_test {
namespace {

class RealMixtureCliTest : public ProgramTest {
 protected:
  /// Where the GGUF conversion keeps a Hugging Face weight: tensor and slice (-1: all of it).
  static std::pair<std::string, int> gguf_place(const MeasuredRow& row) {
    static const std::map<std::pair<std::string, std::string>, std::string> kNames = {
        {{"embedding", "embed_tokens"}, "token_embd"},
        {{"output", "lm_head"}, "output"},
        {{"router", "router"}, "ffn_gate_inp"},
        {{"attention", "o_proj"}, "attn_output"},
        {{"attention", "q_a_proj"}, "attn_q_a"},
        {{"attention", "q_b_proj"}, "attn_q_b"},
        {{"attention", "kv_a_proj"}, "attn_kv_a_mqa"},
        {{"dense_mlp", "gate_proj"}, "ffn_gate"},
        {{"dense_mlp", "up_proj"}, "ffn_up"},
        {{"dense_mlp", "down_proj"}, "ffn_down"},
        {{"routed_expert", "gate_proj"}, "ffn_gate_exps"},
        {{"routed_expert", "up_proj"}, "ffn_up_exps"},
        {{"routed_expert", "down_proj"}, "ffn_down_exps"},
        {{"shared_expert", "gate_proj"}, "ffn_gate_shexp"},
        {{"shared_expert", "up_proj"}, "ffn_up_shexp"},
        {{"shared_expert", "down_proj"}, "ffn_down_shexp"}};
    const std::string& name = kNames.at({row.block, row.role});
    return {row.layer < 0 ? name + ".weight"
                          : "blk." + std::to_string(row.layer) + "." + name + ".weight",
            static_cast<int>(row.expert)};
  }
};

// Counts from config.json: per layer q_a, q_b, kv_a, kv_b and o; three per dense layer; one router,
// three shared and three per routed expert in the others; embedding and output. GGUF holds kv_b as
// a k_b and a v_b per head.
TEST_F(RealMixtureCliTest, BothContainersGiveTheSameSpectraAndTheCountsOfTheConfiguration) {
  VINDEX_NEEDS(mixture_gguf_);
  const std::string hf_file = measured(mixture_, "hf");
  const std::string gguf_file = measured(mixture_gguf_, "gguf");
  const auto hf = by_key(read_rows(hf_file));
  const auto gguf = by_key(read_rows(gguf_file));

  const auto config = nlohmann::json::parse(file_text(mixture_ + "/config.json"));
  const std::size_t layers = config["num_hidden_layers"], dense = config["first_k_dense_replace"],
                    experts = config["n_routed_experts"], heads = config["num_attention_heads"];
  const std::size_t expected =
      5 * layers + 3 * dense + (layers - dense) * (1 + 3 + 3 * experts) + 2;
  EXPECT_EQ(hf.size(), expected);
  EXPECT_EQ(gguf.size(), expected + layers * (2 * heads - 1));

  std::size_t compared = 0, same = 0;
  double worst = 0.0;
  for (const auto& [key, row] : hf) {
    EXPECT_EQ(row.status, 0) << row.tensor << ": " << row.reason;
    const auto found = gguf.find(key);
    if (row.role == "kv_b_proj") {
      EXPECT_EQ(found, gguf.end());
      continue;
    }
    ASSERT_NE(found, gguf.end()) << row.tensor;
    const MeasuredRow& other = found->second;
    EXPECT_EQ(other.status, 0) << other.tensor << ": " << other.reason;
    EXPECT_EQ(std::make_pair(row.rows, row.cols), std::make_pair(other.rows, other.cols))
        << row.tensor;
    ASSERT_EQ(row.sigma.size(), static_cast<std::size_t>(std::min(row.rows, row.cols)))
        << row.tensor;
    ASSERT_EQ(row.sigma.size(), other.sigma.size()) << row.tensor;
    for (std::size_t i = 0; i < row.sigma.size(); ++i) {
      EXPECT_NEAR(row.sigma[i], other.sigma[i], 1e-6 * row.sigma[i])
          << row.tensor << " value " << i;
      worst = std::max(worst, std::abs(row.sigma[i] - other.sigma[i]) / row.sigma[i]);
    }
    same += row.sigma == other.sigma ? 1 : 0;
    ++compared;
  }
  EXPECT_EQ(compared, expected - layers);
  RecordProperty("compared", std::to_string(compared));
  RecordProperty("bit_identical", std::to_string(same));
  RecordProperty("worst_relative", std::to_string(worst));
}

// Neither q nor k is permuted for this architecture (only llama's converter does so), so every
// shared matrix is the same bits. All shapes that are not square are here: an exchange of rows and
// columns cannot hide.
TEST_F(RealMixtureCliTest, DecodeGivesTheSameBitsFromBothContainers) {
  VINDEX_NEEDS(mixture_gguf_);
  const auto rows = read_rows(measured(mixture_, "hf"));
  std::set<std::string> roles_seen;
  std::size_t not_square = 0;
  for (const MeasuredRow& row : rows) {
    const bool square = row.rows == row.cols;
    const bool first_expert_kind = row.expert == 5 && row.layer == 2;
    if (row.role == "kv_b_proj" || (square && row.expert >= 0 && !first_expert_kind) ||
        (square && row.expert < 0 && !roles_seen.insert(row.block + row.role).second)) {
      continue;
    }
    const auto [name, slice] = gguf_place(row);
    const auto hf = decoded(mixture_, row.tensor);
    EXPECT_EQ(hf.size(), static_cast<std::size_t>(row.rows * row.cols));
    EXPECT_TRUE(same_bits(hf, decoded(mixture_gguf_, name, slice))) << row.tensor << " " << name;
    not_square += square ? 0 : 1;
  }
  EXPECT_EQ(not_square,
            4U * 2 + 3 + 3);  // q_b and kv_a of four layers, the dense MLP, three routers
}

// kv_b is heads x (nope rows of k, then v_dim rows of v); GGUF keeps the k part of each head
// transposed.
TEST_F(RealMixtureCliTest, KvBIsRebuiltBitForBitFromItsHeads) {
  VINDEX_NEEDS(mixture_gguf_);
  const auto config = nlohmann::json::parse(file_text(mixture_ + "/config.json"));
  const std::size_t layers = config["num_hidden_layers"], heads = config["num_attention_heads"],
                    nope = config["qk_nope_head_dim"], value = config["v_head_dim"],
                    latent = config["kv_lora_rank"];
  for (std::size_t layer = 0; layer < layers; ++layer) {
    const std::string block = "blk." + std::to_string(layer) + ".";
    const auto k = decoded(mixture_gguf_, block + "attn_k_b.weight");
    const auto v = decoded(mixture_gguf_, block + "attn_v_b.weight");
    ASSERT_EQ(k.size(), heads * latent * nope);
    ASSERT_EQ(v.size(), heads * value * latent);
    std::vector<float> rebuilt;
    for (std::size_t head = 0; head < heads; ++head) {
      for (std::size_t row = 0; row < nope; ++row) {
        for (std::size_t column = 0; column < latent; ++column) {
          rebuilt.push_back(k[(head * latent + column) * nope + row]);
        }
      }
      const auto first = v.begin() + static_cast<std::ptrdiff_t>(head * value * latent);
      rebuilt.insert(rebuilt.end(), first, first + static_cast<std::ptrdiff_t>(value * latent));
    }
    const std::string name =
        "model.layers." + std::to_string(layer) + ".self_attn.kv_b_proj.weight";
    EXPECT_TRUE(same_bits(rebuilt, decoded(mixture_, name))) << name;
    if (layer == 0) {  // one head alone is the same bytes as its place in the whole
      const auto head = decoded(mixture_gguf_, block + "attn_k_b.weight", 2);
      const auto first = k.begin() + static_cast<std::ptrdiff_t>(2 * latent * nope);
      EXPECT_TRUE(same_bits(head, {first, first + static_cast<std::ptrdiff_t>(latent * nope)}));
    }
  }
}

TEST_F(RealMixtureCliTest, AnyShardOfASplitNamesTheWholeModel) {
  const std::string folder = data_ + "/gguf/split";
  VINDEX_NEEDS(folder);
  const std::string empty_first = measured(folder + "/kjv-moe-Q8_0-00001-of-00005.gguf", "first");
  const std::string table = csv(empty_first);
  EXPECT_EQ(read_rows(empty_first).size(), 137U);
  EXPECT_EQ(table, csv(measured(folder + "/kjv-moe-Q8_0-00004-of-00005.gguf", "fourth")));
  EXPECT_EQ(table, csv(measured(folder, "folder")));
}

// Q4_K_M of this model mixes Q4_K, Q5_K, Q6_K, Q5_0 and F32: all of them are measured.
TEST_F(RealMixtureCliTest, LanguageModelsOfTheDataAreMeasuredWhole) {
  struct Case {
    std::string path;
    std::size_t matrices;
    std::set<std::string> encodings;
  };
  const std::vector<Case> cases = {
      {"/gguf/full/kjv-moe-Q4_K_M.gguf", 137, {"Q4_K", "Q5_K", "Q6_K", "Q5_0", "F32"}},
      {"/gguf/full/stories260K-Q4_K_M.gguf", 37, {"Q5_0", "Q8_0", "F16"}},
      {"/stories260k/stories260K.gguf", 37, {"F32"}},
      {"/silero/silero_vad_16k.safetensors", 2, {"F32"}}};
  for (const Case& one : cases) {
    SCOPED_TRACE(one.path);
    VINDEX_NEEDS(data_ + one.path);
    const auto rows = read_rows(measured(data_ + one.path, std::to_string(one.matrices)));
    EXPECT_EQ(rows.size(), one.matrices);
    std::set<std::string> encodings;
    for (const MeasuredRow& row : rows) {
      EXPECT_EQ(row.status, 0) << row.tensor << ": " << row.reason;
      encodings.insert(row.encoding);
    }
    EXPECT_EQ(encodings, one.encodings);
    std::filesystem::remove(folder_.file(std::to_string(one.matrices) + ".h5"));
  }
}

TEST_F(RealMixtureCliTest, QuantisedCheckpointsAreMeasuredAndDecoded) {
  for (const char* scheme : {"fp8_block128", "ct_pack_int4_g32", "gptq_int4", "hqq_1bit"}) {
    SCOPED_TRACE(scheme);
    const std::string path = data_ + "/st_quant/" + scheme + ".safetensors";
    VINDEX_NEEDS(path);
    const std::string out = folder_.file(std::string(scheme) + ".h5");
    must({"measure", path, "-o", out, "--progress", "none"});
    must({"validate", out});
    const auto rows = read_rows(out);
    ASSERT_EQ(rows.size(), 1U);
    EXPECT_EQ(rows[0].status, 0) << rows[0].reason;
    const std::string expected = data_ + "/st_quant/" + scheme + ".expected.safetensors";
    EXPECT_TRUE(same_bits(decoded(path, rows[0].tensor), decoded(expected, rows[0].tensor)));
  }
}

}  // namespace
}  // namespace vindex::testing::real_data_test
