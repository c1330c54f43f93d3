// What names mean, family by family: a table of tensors and of the places their matrices take.
// Shapes are never square, so that a swapped side shows.
#include "tests/model/model_fixture.hpp"

#include <sstream>

namespace vindex::model::families_test {
namespace {

/// Tensors of one family. A line of `names`: a name ("+" is `prefix`), its shape (with its type
/// before it where that is not BF16), and the place of its matrices, "layer/block/role[/expert
/// [/slice]] [rows x cols] [T]": experts and slices that are not named are -1, "#" is the number of
/// the slice, sizes that are not named are those stored. A place "block: reason" is of a tensor
/// that is no matrix.
struct Family {
  const char* title;
  const char* type;  ///< "gguf:" before an architecture of GGUF; "outer+inner" of a wrapper
  const char* prefix;
  const char* names;
  const char* warning = "";  ///< the only one
};

void PrintTo(const Family& family, std::ostream* out) { *out << family.title; }

const Family kFamilies[] = {
    {"DeepseekV3", "deepseek_v3", "model.layers.3.", R"(
model.embed_tokens.weight            90x40 -1/embedding/embed_tokens
lm_head.weight                       90x40 -1/output/lm_head
model.norm.weight                    40    norm: 1-D
+self_attn.q_a_proj.weight           24x40 3/attention/q_a_proj
+self_attn.q_a_layernorm.weight      24    norm: 1-D
+self_attn.q_b_proj.weight           60x24 3/attention/q_b_proj
+self_attn.kv_a_proj_with_mqa.weight 20x40 3/attention/kv_a_proj
+self_attn.kv_b_proj.weight          64x16 3/attention/kv_b_proj
+self_attn.o_proj.weight             40x32 3/attention/o_proj
+mlp.gate.weight                     8x40  3/router/router
+mlp.gate.e_score_correction_bias    F32:8 router: 1-D
+mlp.experts.7.gate_proj.weight      12x40 3/routed_expert/gate_proj/7
+mlp.experts.7.up_proj.weight        12x40 3/routed_expert/up_proj/7
+mlp.experts.7.down_proj.weight      40x12 3/routed_expert/down_proj/7
+mlp.shared_experts.gate_proj.weight 12x40 3/shared_expert/gate_proj
+mlp.shared_experts.down_proj.weight 40x12 3/shared_expert/down_proj
model.layers.0.mlp.gate_proj.weight  48x40 0/dense_mlp/gate_proj
)"},
    {"DeepseekV32", "deepseek_v32", "model.layers.4.", R"(
+self_attn.indexer.wq_b.weight   64x24 4/attention/wq_b
+self_attn.indexer.k_norm.weight 24    norm: 1-D
+mlp.experts.3.down_proj.weight  48x24 4/routed_expert/down_proj/3
)"},
    {"DeepseekV4", "deepseek_v4", "layers.4.", R"(
embed.weight                  90x48 -1/embedding/embed_tokens
head.weight                   90x48 -1/output/lm_head
+attn.wq_a.weight             24x48 4/attention/q_a_proj
+attn.wo_a.weight             24x48 4/attention/wo_a
+attn.compressor.wkv.weight   24x48 4/attention/wkv
+ffn.gate.weight              8x48  4/router/router
+ffn.experts.3.w2.weight      48x24 4/routed_expert/down_proj/3
+ffn.shared_experts.w1.weight 24x48 4/shared_expert/gate_proj
)"},
    {"KimiK25WrapperIsNoTowerAndTowersAreOther", "kimi_k25+kimi_k2", "", R"(
language_model.model.layers.2.mlp.experts.11.up_proj.weight 12x40 2/routed_expert/up_proj/11
vision_tower.encoder.blocks.5.mlp.fc0.weight                30x20 -1/other/fc0
mm_projector.proj.0.weight                                  30x20 -1/other/0
)"},
    {"KimiK3", "kimi_k3", "language_model.model.layers.4.block_sparse_moe.", R"(
+experts.7.w1.weight            24x36 4/routed_expert/gate_proj/7
+experts.7.w3.weight            24x36 4/routed_expert/up_proj/7
+experts.7.w2.weight            36x24 4/routed_expert/down_proj/7
+routed_expert_down_proj.weight 36x48 4/routed_expert/routed_expert_down_proj
+gate.weight                    8x48  4/router/router
+gate.e_score_correction_bias   8     router: 1-D
+shared_experts.up_proj.weight  24x48 4/shared_expert/up_proj
)"},
    {"Llama", "llama", "model.layers.1.", R"(
+self_attn.q_proj.weight 64x40 1/attention/q_proj
+self_attn.k_proj.weight 16x40 1/attention/k_proj
+self_attn.v_proj.weight 16x40 1/attention/v_proj
+self_attn.o_proj.weight 40x64 1/attention/o_proj
+mlp.gate_proj.weight    96x40 1/dense_mlp/gate_proj
+mlp.up_proj.weight      96x40 1/dense_mlp/up_proj
+mlp.down_proj.weight    40x96 1/dense_mlp/down_proj
)"},
    {"LlamaOfGgufIsTheSame", "gguf:llama", "blk.1.", R"(
+attn_q.weight      64x40 1/attention/q_proj
+attn_k.weight      16x40 1/attention/k_proj
+attn_v.weight      16x40 1/attention/v_proj
+attn_output.weight 40x64 1/attention/o_proj
+ffn_gate.weight    96x40 1/dense_mlp/gate_proj
+ffn_up.weight      96x40 1/dense_mlp/up_proj
+ffn_down.weight    40x96 1/dense_mlp/down_proj
)"},
    {"MixtralW1IsGateW3IsUpW2IsDown", "mixtral", "model.layers.4.block_sparse_moe.", R"(
+gate.weight         8x40  4/router/router
+experts.5.w1.weight 24x40 4/routed_expert/gate_proj/5
+experts.5.w2.weight 40x24 4/routed_expert/down_proj/5
+experts.5.w3.weight 24x40 4/routed_expert/up_proj/5
)"},
    {"Qwen2MoeSharedExpertGateIsARouterOfOneRow", "qwen2_moe", "model.layers.0.", R"(
+mlp.shared_expert_gate.weight    1x40  0/router/shared_expert_gate
+mlp.shared_expert.up_proj.weight 96x40 0/shared_expert/up_proj
+mlp.experts.3.gate_proj.weight   24x40 0/routed_expert/gate_proj/3
+self_attn.q_proj.bias            40    attention: 1-D
)"},
    {"Qwen3Next", "qwen3_next", "model.layers.4.", R"(
+linear_attn.in_proj_qkvz.weight 96x48  4/ssm/in_proj_qkvz
+linear_attn.out_proj.weight     48x24  4/ssm/out_proj
+linear_attn.conv1d.weight       96x1x4 ssm: convolution
+mlp.shared_expert_gate.weight   1x48   4/router/shared_expert_gate
+mlp.experts.3.up_proj.weight    24x48  4/routed_expert/up_proj/3
)"},
    {"Phi3FusedProjectionsStayOneMatrix", "phi3", "model.layers.0.", R"(
+self_attn.qkv_proj.weight 120x40 0/attention/qkv_proj
+mlp.gate_up_proj.weight   192x40 0/dense_mlp/gate_up_proj
)"},
    {"Phi3OfGguf", "gguf:phi3", "", R"(
blk.0.ffn_up.weight 192x40 0/dense_mlp/gate_up_proj
)"},
    {"Gemma3VisionTowerOfAWrapperIsOther", "gemma3+gemma3_text", "language_model.model.layers.1.",
     R"(
+self_attn.q_proj.weight                                           64x40 1/attention/q_proj
+pre_feedforward_layernorm.weight                                  40    norm: 1-D
model.language_model.layers.2.mlp.up_proj.weight                   96x40 2/dense_mlp/up_proj
vision_tower.vision_model.encoder.layers.3.self_attn.q_proj.weight 30x20 -1/other/q_proj
)"},
    {"GptOssStacksAreTurnedToOutByIn", "gpt_oss", "model.layers.2.mlp.", R"(
+experts.gate_up_proj      3x40x48 2/routed_expert/gate_up_proj/#/# 48x40 T
+experts.down_proj         3x24x40 2/routed_expert/down_proj/#/# 40x24 T
+experts.gate_up_proj_bias 3x48    routed_expert: bias
+router.weight             3x40    2/router/router
)"},
    {"FusedResaveOutByInIsNotTurned", "qwen3_moe", "model.layers.2.mlp.", R"(
+experts.gate_up_proj 3x48x40 2/routed_expert/gate_up_proj/#/#
+experts.down_proj    3x40x24 2/routed_expert/down_proj/#/#
)"},
    {"ShapesOfAFusedPairOutrankTheArchitecture", "gpt_oss", "model.layers.2.mlp.", R"(
+experts.gate_up_proj 3x48x40 2/routed_expert/gate_up_proj/#/#
+experts.down_proj    3x40x24 2/routed_expert/down_proj/#/#
)",
     "W-LAYOUT"},
    {"Llama4ExpertsAreTransposedAndVisionIsOther", "llama4",
     "language_model.model.layers.1.feed_forward.", R"(
+experts.gate_up_proj                      2x40x48 1/routed_expert/gate_up_proj/#/# 48x40 T
+experts.down_proj                         2x24x40 1/routed_expert/down_proj/#/# 40x24 T
+router.weight                             2x40    1/router/router
+shared_expert.gate_proj.weight            24x40   1/shared_expert/gate_proj
vision_model.model.layers.0.mlp.fc1.weight 30x20   -1/other/fc1
)"},
    {"GraniteLinearsAreFusedStacks", "granitemoeshared", "model.layers.0.", R"(
+block_sparse_moe.input_linear.weight  3x48x40 0/routed_expert/gate_up_proj/#/#
+block_sparse_moe.output_linear.weight 3x40x24 0/routed_expert/down_proj/#/#
+block_sparse_moe.router.layer.weight  3x40    0/router/router
+shared_mlp.input_linear.weight        96x40   0/shared_expert/gate_up_proj
+shared_mlp.output_linear.weight       40x48   0/shared_expert/down_proj
)"},
    {"DbrxDownIsTurned", "dbrx", "transformer.blocks.3.", R"(
+ffn.experts.mlp.w1              72x40 3/routed_expert/gate_proj
+ffn.experts.mlp.v1              72x40 3/routed_expert/up_proj
+ffn.experts.mlp.w2              72x40 3/routed_expert/down_proj 40x72 T
+ffn.router.layer.weight         3x40  3/router/router
+norm_attn_norm.attn.Wqkv.weight 60x40 3/attention/qkv_proj
)"},
    {"Glm4Moe", "glm4_moe", "model.layers.4.mlp.", R"(
+experts.3.gate_proj.weight      24x48 4/routed_expert/gate_proj/3
+shared_experts.gate_proj.weight 24x48 4/shared_expert/gate_proj
+gate.weight                     8x48  4/router/router
)"},
    {"MinimaxM2", "minimax_m2", "model.layers.4.block_sparse_moe.", R"(
+experts.3.w1.weight     24x48 4/routed_expert/gate_proj/3
+e_score_correction_bias 8     router: 1-D
+gate.weight             8x48  4/router/router
)"},
    {"HunyuanV1Moe", "hunyuan_v1_moe", "model.layers.4.mlp.", R"(
+gate.wg.weight            8x48  4/router/router
+shared_mlp.up_proj.weight 24x48 4/shared_expert/up_proj
)"},
    {"Ernie45Moe", "ernie4_5_moe", "model.layers.4.mlp.", R"(
+moe_statics.e_score_correction_bias 1x8   other: bias
+experts.3.down_proj.weight          48x24 4/routed_expert/down_proj/3
)"},
    {"MistralsOwnFiles", "mistral4", "layers.4.", R"(
tok_embeddings.weight            90x48 -1/embedding/embed_tokens
+attention.wq_b.weight           64x24 4/attention/q_b_proj
+attention.wkv_a_with_mqa.weight 32x48 4/attention/kv_a_proj
+gate.weight                     8x48  4/router/router
+experts.3.w3.weight             24x48 4/routed_expert/up_proj/3
+shared_experts.w2.weight        48x24 4/shared_expert/down_proj
)"},
    {"Deepseek2OfGgufOneMatrixForEachSlice", "gguf:deepseek2", "blk.2.", R"(
token_embd.weight     Q4_K:90x256   -1/embedding/embed_tokens
output.weight         Q6_K:90x256   -1/output/lm_head
+attn_k_b.weight      3x16x6        2/attention/k_b_proj/-1/#
+attn_v_b.weight      3x8x16        2/attention/v_b_proj/-1/#
+attn_kv_a_mqa.weight 20x256        2/attention/kv_a_proj
+ffn_gate_inp.weight  F32:4x256     2/router/router
+exp_probs_b.bias     F32:4         router: 1-D
+ffn_down_exps.weight Q8_0:4x256x32 2/routed_expert/down_proj/#/#
+ffn_up_shexp.weight  Q8_0:32x256   2/shared_expert/up_proj
)"},
    {"PredictionStateSpaceAndOldMlaOfGguf", "gguf:deepseek2", "blk.9.", R"(
+nextn.eh_proj.weight          40x80 9/other/eh_proj
+nextn.shared_head_head.weight 90x40 9/output/lm_head
+attn_kv_b.weight              64x16 9/attention/kv_b_proj
+ssm_in.weight                 64x40 9/ssm/in_proj
+ssm_conv1d.weight             64x4  9/ssm/ssm_conv1d
+ffn_gate_inp_shexp.weight     1x40  9/router/shared_expert_gate
)"},
    {"ExpertsWereSeparateTensorsInOldGguf", "gguf:llama", "blk.1.", R"(
+ffn_gate.6.weight 24x40 1/routed_expert/gate_proj/6
+ffn_down.6.weight 40x24 1/routed_expert/down_proj/6
)"},
    {"TokenTableOfDeepseek4IsNoWeight", "gguf:deepseek4", "", R"(
blk.0.ffn_gate_tid2eid.weight I32:90x6 router: lookup table
)"},
    {"UnknownOnesAreOtherUnderTheirOwnName", "mystery", "", R"(
blk.3.attn_q.weight          64x40   3/other/attn_q
layers.4.experts.9.w1.weight 24x40   4/other/w1/9
blk.3.ffn_up_exps.weight     3x24x40 other: 3-D, no known stack
stem.conv1.weight            24x4x3  other: convolution
blk.3.attn_norm.weight       40      other: 1-D
)",
     "W-ARCHITECTURE-UNKNOWN"},
    {"UnknownOnesOfGgufToo", "gguf:mystery", "", R"(
blk.3.attn_q.weight          64x40   3/other/attn_q
layers.4.experts.9.w1.weight 24x40   4/other/w1/9
blk.3.ffn_up_exps.weight     3x24x40 other: 3-D, no known stack
stem.conv1.weight            24x4x3  other: convolution
blk.3.attn_norm.weight       40      other: 1-D
)",
     "W-ARCHITECTURE-UNKNOWN"},
    {"NamesOfHuggingFaceSpeakForThemselves", "", "", R"(
model.layers.1.mlp.experts.0.down_proj.weight 40x24 1/routed_expert/down_proj/0
)"}};

struct Named {
  std::string name, place;
  decode::ElementType type = decode::ElementType::kBF16;
  std::vector<std::int64_t> shape;
};

decode::ElementType type_called(const std::string& name) {
  for (const decode::ElementTypeRow& row : decode::element_type_rows()) {
    if (row.name == name) {
      return row.type;
    }
  }
  throw std::runtime_error("no type " + name);
}

std::vector<std::int64_t> sides_of(const std::string& text) {
  std::vector<std::int64_t> sides;
  std::istringstream stream(text);
  for (std::string side; std::getline(stream, side, 'x');) {
    sides.push_back(std::stoll(side));
  }
  return sides;
}

std::vector<Named> named(const Family& family) {
  std::vector<Named> out;
  std::istringstream lines(family.names);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    Named one;
    std::string shape;
    if (!(words >> one.name >> shape)) {
      continue;
    }
    std::getline(words >> std::ws, one.place);
    if (one.name[0] == '+') {
      one.name.replace(0, 1, family.prefix);
    }
    if (const std::size_t colon = shape.find(':'); colon != std::string::npos) {
      one.type = type_called(shape.substr(0, colon));
      shape.erase(0, colon + 1);
    }
    one.shape = sides_of(shape);
    out.push_back(std::move(one));
  }
  return out;
}

/// What describe() is to say of the matrix of `slice` (-1: the only one).
std::string wanted(const Named& one, std::int64_t slice) {
  std::istringstream words(one.place);
  std::string place;
  std::string sizes;
  words >> place >> sizes;
  for (std::size_t at = place.find('#'); at != std::string::npos; at = place.find('#')) {
    place.replace(at, 1, std::to_string(slice));
  }
  for (auto parts = std::count(place.begin(), place.end(), '/'); parts < 4; ++parts) {
    place += "/-1";
  }
  if (sizes.empty()) {
    sizes = std::to_string(one.shape.end()[-2]) + "x" + std::to_string(one.shape.back());
  }
  return place + " " + sizes + (one.place.ends_with(" T") ? " T" : "");
}

class Families : public ::testing::TestWithParam<Family> {};

TEST_P(Families, EveryNameHasItsPlace) {
  const std::string type = GetParam().type;
  ModelFixture fixture =
      type.starts_with("gguf:") ? ModelFixture::gguf(type.substr(5)) : ModelFixture();
  const std::string outer = type.substr(0, type.find('+'));
  if (!type.empty() && !type.starts_with("gguf:")) {
    fixture.config("model_type", outer.c_str());
  }
  if (outer != type) {
    fixture.config("text_config.model_type", type.substr(outer.size() + 1).c_str());
  }
  const std::vector<Named> names = named(GetParam());
  for (const Named& one : names) {
    fixture.add(one.name, one.type, one.shape);
  }
  const ModelIndex index = fixture.index();
  std::size_t matrices = 0;
  for (const Named& one : names) {
    if (const std::size_t colon = one.place.find(": "); colon != std::string::npos) {
      const TensorRecord* tensor = find_tensor(index, one.name);
      ASSERT_NE(tensor, nullptr) << one.name;
      EXPECT_FALSE(tensor->in_matrix) << one.name;
      EXPECT_EQ(std::string(block_name(tensor->block)) + ": " + tensor->reason, one.place)
          << one.name;
      continue;
    }
    const bool sliced = one.place.find('#') != std::string::npos;
    std::vector<std::string> places;
    for (std::int64_t slice = 0; slice < (sliced ? one.shape[0] : 1); ++slice) {
      places.push_back(wanted(one, sliced ? slice : -1));
    }
    EXPECT_EQ(describe(index, one.name), places) << one.name;
    matrices += places.size();
  }
  EXPECT_EQ(index.matrices.size(), matrices);
  for (const std::string& id : warning_ids(index)) {
    if (id != "W-ROUTER-ROWS") {  // routers have a row for every expert, these models one expert
      EXPECT_EQ(id, GetParam().warning);
    }
  }
  EXPECT_TRUE(*GetParam().warning == '\0' || !index.warnings.empty());
  EXPECT_EQ(index.shape.architecture, type.empty()                ? "unknown"
                                      : type.starts_with("gguf:") ? type.substr(5)
                                                                  : outer);
}

INSTANTIATE_TEST_SUITE_P(Table, Families, ::testing::ValuesIn(kFamilies),
                         [](const auto& family) { return std::string(family.param.title); });

}  // namespace
}  // namespace vindex::model::families_test
