// What a graft is warned of: two models by hand that differ in one thing.

#include "organ/graft/graft_checks.hpp"

#include "organ/graft/graft_ancestry.hpp"
#include "organ/graft/graft_finding.hpp"
#include "organ/graft/graft_plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace vindex::organ::graft_checks_test {
namespace {

using decode::ElementType;

KeyFact number(double value) {
  return {.text = std::to_string(value), .digest = std::to_string(value), .number = value};
}
KeyFact text(const std::string& value) { return {.text = value, .digest = value}; }
KeyFact by_blocks(std::vector<std::int64_t> values) {
  std::string digest;
  for (const std::int64_t value : values) {
    digest += std::to_string(value) + ",";
  }
  return {.text = "an array", .digest = digest, .number = {}, .integers = std::move(values)};
}

ModelFacts llama() {
  ModelFacts model;
  model.architecture = "llama";
  model.keys = {{"general.architecture", text("llama")},
                {"general.license", text("apache-2.0")},
                {"general.quantization_version", number(2)},
                {"llama.block_count", number(2)},
                {"llama.context_length", number(4096)},
                {"llama.attention.head_count", number(8)},
                {"llama.attention.head_count_kv", number(2)},
                {"llama.attention.layer_norm_rms_epsilon", number(1e-5)},
                {"llama.rope.dimension_count", number(64)},
                {"llama.rope.freq_base", number(10000)},
                {"tokenizer.ggml.model", text("gpt2")},
                {"tokenizer.ggml.tokens", text("256 x str")},
                {"tokenizer.ggml.bos_token_id", number(1)},
                {"tokenizer.chat_template", text("{{ x }}")}};
  model.tensors = {{"token_embd.weight", ElementType::kF16, {64, 100}}};
  for (const char* block : {"blk.0.", "blk.1."}) {
    model.tensors.push_back({std::string(block) + "attn_q.weight", ElementType::kQ8_0, {64, 64}});
    model.tensors.push_back({std::string(block) + "ffn_up.weight", ElementType::kQ8_0, {64, 128}});
  }
  return model;
}

/// "LEVEL ID" of what is found for a graft of these classes.
std::vector<std::string> found(const ModelFacts& host, const ModelFacts& donor,
                               const std::string& types, const std::string& map = "") {
  const GraftRequest request = parse_graft_request(types, "", map, false);
  const auto findings = check_graft(host, donor, plan_graft(host.tensors, donor.tensors, request));
  std::vector<std::string> out;
  for (const GraftFinding& finding : findings) {
    EXPECT_FALSE(finding.what.empty());
    EXPECT_TRUE(finding.level != Level::kError || !finding.advice.empty()) << finding.id;
    out.push_back(std::string(level_name(finding.level)) + " " + finding.id);
  }
  return out;
}

using Texts = std::vector<std::string>;

TEST(GraftChecks, EqualModelsGiveNoFinding) { EXPECT_EQ(found(llama(), llama(), "all"), Texts{}); }

struct Case {
  const char* key;
  KeyFact value;      ///< the donor's
  const char* organ;  ///< finding of a graft of organs
  const char* skeleton;
  const char* embed;
};

TEST(GraftChecks, EveryKeyHasItsLevel) {
  const std::vector<Case> cases = {
      {"llama.attention.head_count", number(16), "error heads", "error heads", "error heads"},
      {"llama.attention.head_count_kv", number(8), "error heads", "error heads", "error heads"},
      {"llama.attention.key_length", number(128), "error heads", "error heads", "error heads"},
      {"llama.expert_count", number(4), "error experts", "error experts", "error experts"},
      {"llama.expert_used_count", number(4), "error experts", "error experts", "error experts"},
      {"llama.rope.freq_base", number(1e6), "note rope", "error rope", "note rope"},
      {"llama.rope.dimension_count", number(32), "note rope", "error rope", "note rope"},
      {"llama.rope.scaling.type", text("yarn"), "note rope", "error rope", "note rope"},
      {"llama.rope.scaling.factor", number(4), "note rope", "error rope", "note rope"},
      {"llama.attention.layer_norm_rms_epsilon", number(1e-6), "warn norm-epsilon",
       "warn norm-epsilon", "warn norm-epsilon"},
      {"llama.attn_logit_softcapping", number(50), "warn softcap", "warn softcap", "warn softcap"},
      {"llama.logit_scale", number(0.5), "warn scale", "warn scale", "warn scale"},
      {"llama.residual_scale", number(0.5), "warn scale", "warn scale", "warn scale"},
      {"llama.attention.sliding_window", number(4096), "warn sliding-window", "warn sliding-window",
       "warn sliding-window"},
      {"tokenizer.ggml.tokens", text("300 x str"), "warn tokenizer", "warn tokenizer",
       "error tokenizer"},
      {"tokenizer.ggml.merges", text("9 x str"), "warn tokenizer", "warn tokenizer",
       "error tokenizer"},
      {"tokenizer.ggml.pre", text("qwen2"), "warn tokenizer", "warn tokenizer", "error tokenizer"},
      {"tokenizer.ggml.eos_token_id", number(7), "warn tokenizer", "warn tokenizer",
       "error tokenizer"},
      {"tokenizer.chat_template", text("{{ y }}"), "", "", ""},
      {"general.license", text("other"), "warn licence", "warn licence", "warn licence"},
      {"general.license.name", text("x"), "warn licence", "warn licence", "warn licence"},
      {"general.quantization_version", number(1), "error quantisation", "error quantisation",
       "error quantisation"},
      {"general.name", text("another"), "", "", ""},
      {"llama.context_length", number(8192), "note other-keys", "note other-keys",
       "note other-keys"},
  };
  for (const Case& one : cases) {
    ModelFacts donor = llama();
    donor.keys[one.key] = one.value;
    const auto expected = [](const char* finding) {
      return *finding == '\0' ? Texts{} : Texts{finding};
    };
    EXPECT_EQ(found(llama(), donor, "organ"), expected(one.organ)) << one.key;
    EXPECT_EQ(found(llama(), donor, "skeleton"), expected(one.skeleton)) << one.key;
    EXPECT_EQ(found(llama(), donor, "embed"), expected(one.embed)) << one.key;
    // The same the other way round: a key that only the host has is a difference too.
    EXPECT_EQ(found(donor, llama(), "skeleton"), expected(one.skeleton)) << one.key;
  }
}

TEST(GraftChecks, EqualNumbersOfOtherTypesAreEqual) {
  ModelFacts donor = llama();
  donor.keys["llama.rope.freq_base"].digest = "of an f64";
  EXPECT_EQ(found(llama(), donor, "skeleton"), Texts{});
  donor.keys.erase("llama.rope.freq_base");  // loaders take 10000
  EXPECT_EQ(found(llama(), donor, "skeleton"), Texts{});
}

TEST(GraftChecks, AnotherArchitecture) {
  ModelFacts donor = llama();
  donor.architecture = "qwen2";
  donor.keys.clear();
  for (const auto& [name, fact] : llama().keys) {
    donor.keys[name.starts_with("llama.") ? "qwen2." + name.substr(6) : name] = fact;
  }
  EXPECT_EQ(found(llama(), donor, "organ"), (Texts{"error architecture"}));
  donor.keys["qwen2.rope.freq_base"] = number(1e6);  // keys are still set side by side
  EXPECT_EQ(found(llama(), donor, "organ"), (Texts{"error architecture", "note rope"}));
}

TEST(GraftChecks, ArraysByBlocksAreReadAtTheBlocksThatAreGrafted) {
  ModelFacts host = llama();
  ModelFacts donor = llama();
  donor.keys["llama.attention.head_count_kv"] = by_blocks({2, 2});
  EXPECT_EQ(found(host, donor, "skeleton"), Texts{});
  donor.keys["llama.attention.head_count_kv"] = by_blocks({2, 4});
  EXPECT_EQ(found(host, donor, "skeleton"), (Texts{"error heads"}));
  EXPECT_EQ(found(host, donor, "skeleton", "0:1"), Texts{});
  EXPECT_EQ(found(host, donor, "skeleton", "1:0"), (Texts{"error heads"}));
  host.keys["llama.attention.head_count_kv"] = by_blocks({4, 2});
  EXPECT_EQ(found(host, donor, "skeleton", "1:0"), Texts{});
  donor.keys["llama.attention.head_count_kv"] = by_blocks({2});  // too short to answer
  EXPECT_EQ(found(host, donor, "skeleton"), (Texts{"error heads"}));
}

TEST(GraftChecks, RopeTables) {
  ModelFacts donor = llama();
  donor.rope_tables = {{"rope_freqs.weight", "0123456789abcdef"}};
  EXPECT_EQ(found(llama(), donor, "skeleton"), (Texts{"error rope"}));
  EXPECT_EQ(found(llama(), donor, "organ"), (Texts{"note rope"}));
  EXPECT_EQ(found(donor, donor, "skeleton"), Texts{});
}

TEST(GraftChecks, TablesGiveFindingsThatForceDoesNotMove) {
  const ModelFacts host = llama();
  ModelFacts donor = llama();
  donor.tensors[2].dimensions = {64, 256};
  donor.tensors.push_back({"blk.1.ffn_up.bias", ElementType::kF32, {128}});
  EXPECT_EQ(found(host, donor, "organ"), (Texts{"error shape", "error missing-in-host"}));
  const auto refused = [&](const std::string& types, bool allow, bool force) {
    const auto plan =
        plan_graft(host.tensors, donor.tensors, parse_graft_request(types, "1", "", allow));
    return is_refused(check_graft(host, donor, plan), force);
  };
  EXPECT_TRUE(refused("organ", false, true));
  EXPECT_FALSE(refused("organ", true, false));
  donor.tensors[4].dimensions = {1};
  EXPECT_TRUE(refused("organ", true, true));
  donor = llama();
  donor.architecture = "qwen2";
  EXPECT_TRUE(refused("skeleton", false, false));
  EXPECT_FALSE(refused("skeleton", false, true));
}

TEST(GraftChecks, TiedEmbeddingsAndScalesAreNoted) {
  ModelFacts donor = llama();
  donor.tensors.push_back({"output.weight", ElementType::kF16, {64, 100}});
  donor.tensors.push_back({"blk.0.ffn_up.scale", ElementType::kF32, {1}});
  EXPECT_EQ(found(llama(), donor, "embed"), (Texts{"note tied-embeddings"}));
  EXPECT_EQ(found(llama(), donor, "organ"), (Texts{"note scales"}));
  EXPECT_EQ(found(donor, llama(), "organ"), (Texts{"note scales"}));
}

Likeness like(double cosine) { return {.tensor = "t", .cosine = cosine, .values = 10, .of = 10}; }

TEST(GraftChecks, AncestryByItsThresholds) {
  const auto levels = [](const std::vector<Likeness>& likeness) {
    std::string out;
    for (const GraftFinding& finding : check_ancestry(likeness)) {
      EXPECT_EQ(finding.id, "ancestry");
      EXPECT_TRUE(finding.can_be_forced);
      out += std::string(level_name(finding.level)) + " ";
    }
    return out;
  };
  EXPECT_EQ(levels({like(1.0), like(0.97)}), "note ");
  EXPECT_EQ(levels({like(0.5), like(0.97)}), "note ");
  EXPECT_EQ(levels({like(0.49), like(0.97)}), "warn note ");
  EXPECT_EQ(levels({like(0.05), like(0.97)}), "warn note ");
  EXPECT_EQ(levels({like(0.049), like(0.97)}), "error note ");
  EXPECT_EQ(levels({like(-0.9)}), "error note ");
  EXPECT_EQ(levels({like(0.01), like(0.3), like(0.9)}), "error warn note ");
  EXPECT_EQ(levels({{.tensor = "zero"}}), "warn ");
  EXPECT_EQ(levels({}), "warn ");
}

}  // namespace
}  // namespace vindex::organ::graft_checks_test
