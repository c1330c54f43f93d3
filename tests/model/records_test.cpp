// Which tensors are matrices, in which order, at which bytes.
#include "model_fixture.hpp"

namespace vindex::model::records_test {
namespace {

using decode::ElementType;

TEST(MatrixRuleTest, OnlyTwoSidedWeightsAreMatrices) {
  ModelFixture fixture;
  fixture.config("model_type", "llama");
  fixture.bf16("scalar.weight", {});
  fixture.bf16("vector.weight", {8});
  fixture.bf16("empty.weight", {0, 8});
  fixture.bf16("row.weight", {1, 8});
  fixture.bf16("column.weight", {8, 1});
  fixture.bf16("four.weight", {2, 3, 4, 5});
  fixture.bf16("table.bias", {4, 8});
  const ModelIndex index = fixture.index();
  EXPECT_EQ(only(index, "row.weight"), "-1/other/row/-1/-1 1x8");
  EXPECT_EQ(only(index, "column.weight"), "-1/other/column/-1/-1 8x1");
  EXPECT_EQ(index.matrices.size(), 2U);
  EXPECT_EQ(find_tensor(index, "scalar.weight")->reason, "rank 0");
  EXPECT_EQ(find_tensor(index, "vector.weight")->reason, "1-D");
  EXPECT_EQ(find_tensor(index, "empty.weight")->reason, "zero size");
  EXPECT_EQ(find_tensor(index, "four.weight")->reason, "4-D, no known stack");
  EXPECT_EQ(find_tensor(index, "table.bias")->reason, "bias");
  EXPECT_EQ(find_tensor(index, "scalar.weight")->count, 1);
  EXPECT_EQ(find_tensor(index, "empty.weight")->count, 0);
}

TEST(MatrixRuleTest, TensorsAreInBytewiseOrderOfName) {
  ModelFixture fixture;
  for (const char* name : {"b.weight", "\xFFz.weight", "a.weight", "B.weight", "a.b.weight"}) {
    fixture.bf16(name, {2, 3});
  }
  const ModelIndex index = fixture.index();
  std::vector<std::string> names;
  for (const TensorRecord& tensor : index.tensors) {
    names.push_back(tensor.name);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"B.weight", "a.b.weight", "a.weight", "b.weight",
                                             "\xFFz.weight"}));
}

TEST(RowOrderTest, LayerBlockRoleExpertSliceName) {
  ModelFixture fixture;
  fixture.config("model_type", "mixtral");
  // Added in an order that is wrong in every key.
  for (const char* name :
       {"model.layers.10.self_attn.q_proj.weight", "model.layers.2.mlp.unheard_of.weight",
        "model.layers.2.block_sparse_moe.experts.10.w2.weight",
        "model.layers.2.block_sparse_moe.experts.2.w2.weight",
        "model.layers.2.block_sparse_moe.experts.2.w3.weight",
        "model.layers.2.block_sparse_moe.experts.10.w1.weight",
        "model.layers.2.self_attn.v_proj.weight", "model.layers.2.self_attn.k_proj.weight",
        "model.layers.2.self_attn.zeta.weight", "model.layers.2.self_attn.alpha.weight",
        "model.layers.2.block_sparse_moe.gate.weight", "lm_head.weight",
        "model.embed_tokens.weight"}) {
    fixture.bf16(name, {4, 6});
  }
  std::vector<std::string> rows;
  for (const MatrixRecord& matrix : fixture.index().matrices) {
    rows.push_back(describe(matrix));
  }
  EXPECT_EQ(rows, (std::vector<std::string>{
                      "-1/embedding/embed_tokens/-1/-1 4x6", "-1/output/lm_head/-1/-1 4x6",
                      "2/router/router/-1/-1 4x6", "2/attention/k_proj/-1/-1 4x6",
                      "2/attention/v_proj/-1/-1 4x6", "2/attention/alpha/-1/-1 4x6",
                      "2/attention/zeta/-1/-1 4x6", "2/routed_expert/gate_proj/10/-1 4x6",
                      "2/routed_expert/up_proj/2/-1 4x6", "2/routed_expert/down_proj/2/-1 4x6",
                      "2/routed_expert/down_proj/10/-1 4x6", "2/other/unheard_of/-1/-1 4x6",
                      "10/attention/q_proj/-1/-1 4x6"}));
}

TEST(RowOrderTest, EveryMatrixKnowsItsTensorRecord) {
  ModelFixture fixture = ModelFixture::gguf("deepseek2");
  fixture.bf16("output.weight", {9, 4});
  fixture.bf16("blk.1.ffn_up_exps.weight", {3, 5, 4});
  fixture.bf16("blk.0.attn_q_a.weight", {6, 4});
  const ModelIndex index = fixture.index();
  ASSERT_EQ(index.matrices.size(), 5U);
  for (const MatrixRecord& matrix : index.matrices) {
    EXPECT_EQ(index.tensors[static_cast<std::size_t>(matrix.tensor_record)].name, matrix.tensor);
  }
}

TEST(LargeStackTest, OffsetsBeyondFourGibibytesAreExact) {
  ModelFixture fixture = ModelFixture::gguf("deepseek2");
  // 384 experts of 7168 x 2048: 5.6e9 weights, 3.2e9 bytes as Q4_K, 1.1e10 as BF16.
  const std::int32_t q4 =
      fixture.add("blk.3.ffn_down_exps.weight", ElementType::kQ4_K, {384, 7168, 2048});
  const std::int32_t bf16 = fixture.bf16("blk.3.ffn_up_exps.weight", {384, 2048, 7168});
  const ModelIndex index = fixture.index();
  ASSERT_EQ(index.matrices.size(), 768U);
  const auto& tensors = fixture.files().tensors;
  constexpr std::uint64_t kSliceWeights = 7168ULL * 2048;
  const MatrixRecord* a = find_matrix(index, "blk.3.ffn_down_exps.weight", 383);
  const MatrixRecord* b = find_matrix(index, "blk.3.ffn_up_exps.weight", 383);
  ASSERT_NE(a, nullptr);
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(a->codes.bytes, kSliceWeights / 256 * 144);
  EXPECT_EQ(a->codes.offset,
            tensors[static_cast<std::size_t>(q4)].offset + 383 * (kSliceWeights / 256 * 144));
  EXPECT_EQ(b->codes.offset,
            tensors[static_cast<std::size_t>(bf16)].offset + 383 * kSliceWeights * 2);
  EXPECT_GT(b->codes.offset, 1ULL << 33U);
  EXPECT_EQ(b->unsupported, "");
  EXPECT_EQ(find_tensor(index, "blk.3.ffn_up_exps.weight")->count, 5'637'144'576);
}

TEST(HostileShapesTest, CountsThatDoNotFitAreRefusedAndSlicesAreBounded) {
  ModelFixture huge;
  huge.config("model_type", "llama");
  huge.bf16("a.weight", {2, 3});
  huge.files().tensors[0].shape = {std::int64_t{1} << 40, std::int64_t{1} << 40};
  EXPECT_THROW(huge.index(), FormatError);
  huge.files().tensors[0].shape = {std::int64_t{1} << 40, std::int64_t{1} << 40, 0};
  EXPECT_THROW(huge.index(), FormatError);

  ModelFixture flat = ModelFixture::gguf("llama");
  flat.add("blk.0.ffn_up_exps.weight", ElementType::kI8, {1 << 20, 1, 1});
  const ModelIndex index = flat.index();
  EXPECT_TRUE(index.matrices.empty());
  EXPECT_EQ(index.tensors[0].reason, "a stack of more than 65536 slices");
}

TEST(HostileShapesTest, BytesThatContradictTheShapeMakeTheRowUnsupported) {
  ModelFixture fixture;
  fixture.config("model_type", "llama");
  fixture.bf16("a.weight", {2, 3});
  fixture.files().tensors[0].bytes = 10;
  EXPECT_EQ(fixture.index().matrices.at(0).unsupported,
            "size contradicts the shape: a.weight has 10 bytes for 2 x 3 of BF16");
}

TEST(HostileNamesTest, StrangeNamesAreOrdinaryNames) {
  ModelFixture fixture;
  fixture.config("model_type", "llama");
  for (const std::string& name :
       {std::string(), std::string("."), std::string("..."), std::string(".weight"),
        std::string("layers."), std::string("layers.99999999999.x.weight"),
        std::string("layers.-1.x"), std::string(60'000, '.'), std::string("weight"),
        std::string("model.model.model."), std::string("a\0b", 3), std::string("_scale_inv"),
        std::string("layers.1.mlp.experts.1.2.3.4.5.6.7.8"), std::string("../../etc/x.weight")}) {
    fixture.bf16(name, {2, 3});
  }
  const ModelIndex index = fixture.index();
  EXPECT_EQ(index.tensors.size(), 14U);
  EXPECT_EQ(only(index, "layers.99999999999.x.weight"), "-1/other/x/-1/-1 2x3");
}

// A row of results needs a role.
TEST(MatrixRuleTest, WhereNothingStandsBeforeTheEndTheNameIsTheRole) {
  ModelFixture fixture;
  const std::vector<std::string> names = {
      ".weight", "a..weight", "x.", ".", "...", "layers.3.", "model..weight", "layers.3..bias"};
  for (const std::string& name : names) {
    fixture.bf16(name, {2, 3});
  }
  const ModelIndex index = fixture.index();
  for (const std::string& name : names) {
    EXPECT_FALSE(find_tensor(index, name)->role.empty()) << name;
  }
  EXPECT_EQ(find_matrix(index, ".weight")->role, ".weight");
  EXPECT_EQ(find_matrix(index, "a..weight")->role, "a..weight");
  EXPECT_EQ(find_matrix(index, "x.")->role, "x.");
  EXPECT_EQ(find_matrix(index, "layers.3.")->role, "layers.3.");
}

}  // namespace
}  // namespace vindex::model::records_test
