// Importance matrices in both formats, whom their entries belong to, and what of them is refused.
#include "model/importance/importance_matrix.hpp"

#include "model_fixture.hpp"

#include "core/digest.hpp"
#include "input/open/open_model.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/importance_builder.hpp"

#include <bit>
#include <cmath>
#include <filesystem>
#include <limits>
#include <numeric>

namespace vindex::model::importance_matrix_test {
namespace {

using testing::at_byte;
using testing::dat_entry;
using testing::error_of;
using testing::GgufBuilder;
using testing::importance_dat;
using testing::importance_gguf;
using testing::little_endian;

const std::string kData = VINDEX_SHARED_DATA;

std::shared_ptr<const ImportanceMatrix> read(const std::string& bytes) {
  return std::make_shared<const ImportanceMatrix>(
      input::make_memory_source("m.imatrix", testing::bytes_of(bytes)));
}

std::string refusal(const std::string& bytes) {
  return error_of([&] { read(bytes); });
}

std::vector<std::int64_t> all_of(const ModelIndex& index) {
  std::vector<std::int64_t> all(index.matrices.size());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

/// "name[slice]: factors" of every row that `file` adds.
std::vector<std::string> weighted(const std::string& file, ModelIndex& index) {
  const auto importance = read(file);
  std::vector<std::int64_t> selected = all_of(index);
  weigh_columns(importance, index, selected);
  std::vector<std::string> out;
  for (const std::int64_t i : selected) {
    const MatrixRecord& matrix = index.matrices[static_cast<std::size_t>(i)];
    if (matrix.table != ResultTable::kImatrix) {
      continue;
    }
    std::string line = matrix.tensor + "[" + std::to_string(matrix.slice) + "]:";
    for (const double factor : activation_scale(matrix)) {
      line += " " + std::to_string(factor).substr(0, 4);
    }
    out.push_back(line);
  }
  return out;
}

using Lines = std::vector<std::string>;

ModelIndex small_gguf_model() {
  ModelFixture model = ModelFixture::gguf("llama");
  model.number_key("llama.expert_count", 3);
  model.bf16("token_embd.weight", {5, 2});
  model.bf16("blk.0.attn_q.weight", {4, 2});
  model.bf16("blk.0.ffn_down_exps.weight", {3, 2, 4});
  return model.index();
}

TEST(ImportanceMatrix, BothFormatsGiveTheRootOfTheMeanSquare) {
  const Lines wanted = {"blk.0.attn_q.weight[-1]: 2.00 0.50"};
  ModelIndex index = small_gguf_model();
  EXPECT_EQ(weighted(importance_gguf({{"blk.0.attn_q.weight", {40.0F, 2.5F}, {10.0F}}}), index),
            wanted);
  index = small_gguf_model();
  EXPECT_EQ(weighted(importance_dat({{"blk.0.attn_q.weight", 3, {12.0F, 0.75F}}}), index), wanted);
  index = small_gguf_model();
  EXPECT_EQ(
      weighted(importance_gguf({{"blk.0.attn_q.weight", {40.0F, 2.5F}, {10.0F}}}, "imatrix", true),
               index),
      wanted);
}

TEST(ImportanceMatrix, EveryExpertHasItsOwnActivationsAndCount) {
  ModelIndex index = small_gguf_model();
  const Lines rows = weighted(importance_gguf({{"blk.0.ffn_down_exps.weight",
                                                {1, 4, 9, 16, 0, 0, 0, 0, 400, 0, 100, 900},
                                                {1, 0, 100}}}),
                              index);
  EXPECT_EQ(rows, (Lines{"blk.0.ffn_down_exps.weight[0]: 1.00 2.00 3.00 4.00",
                         "blk.0.ffn_down_exps.weight[2]: 2.00 0.00 1.00 3.00"}));
  EXPECT_EQ(warning_ids(index).back(), "W-IMATRIX-COUNT");
  EXPECT_NE(index.warnings.back().text.find("[1]"), std::string::npos);
}

// One count for a stack whose values lie slice after slice: heads, and every stack of a .dat file.
TEST(ImportanceMatrix, OneCountServesAllSlices) {
  ModelIndex index = small_gguf_model();
  std::vector<float> values(12);
  std::iota(values.begin(), values.end(), 0.0F);
  for (float& value : values) {
    value *= value * 2.0F;
  }
  EXPECT_EQ(weighted(importance_dat({{"blk.0.ffn_down_exps.weight", 2, values}}), index),
            (Lines{"blk.0.ffn_down_exps.weight[0]: 0.00 1.00 2.00 3.00",
                   "blk.0.ffn_down_exps.weight[1]: 4.00 5.00 6.00 7.00",
                   "blk.0.ffn_down_exps.weight[2]: 8.00 9.00 10.0 11.0"}));
}

TEST(ImportanceMatrix, NamesOfAGgufServeTheHuggingFaceOriginal) {
  ModelFixture model;
  model.config("model_type", "mixtral");
  model.config("num_local_experts", std::uint64_t{2});
  model.bf16("model.layers.1.self_attn.q_proj.weight", {4, 2});
  for (const char* expert : {"0", "1"}) {
    model.bf16("model.layers.1.block_sparse_moe.experts." + std::string(expert) + ".w2.weight",
               {2, 3});
  }
  model.bf16("model.layers.1.block_sparse_moe.gate.weight", {2, 2});
  ModelIndex index = model.index();
  EXPECT_EQ(weighted(importance_gguf({{"blk.1.attn_q.weight", {4, 9}, {1}},
                                      {"blk.1.ffn_gate_inp.weight", {1, 1, 1}, {1}},
                                      {"blk.1.ffn_down_exps.weight", {4, 4, 4, 9, 9, 9}, {4, 1}}}),
                     index),
            (Lines{"model.layers.1.self_attn.q_proj.weight[-1]: 2.00 3.00",
                   "model.layers.1.block_sparse_moe.experts.0.w2.weight[-1]: 1.00 1.00 1.00",
                   "model.layers.1.block_sparse_moe.experts.1.w2.weight[-1]: 3.00 3.00 3.00"}));
  EXPECT_EQ(warning_ids(index).back(), "W-IMATRIX-WIDTH");  // three inputs for a router of two
}

// A fused pair sees what each of its halves sees.
TEST(ImportanceMatrix, FusedMatricesTakeTheInputsOfTheirParts) {
  ModelFixture model;
  model.config("model_type", "phi3");
  model.bf16("model.layers.0.self_attn.qkv_proj.weight", {6, 2});
  model.bf16("model.layers.0.mlp.gate_up_proj.weight", {8, 2});
  ModelIndex index = model.index();
  EXPECT_EQ(weighted(importance_gguf({{"blk.0.attn_q.weight", {4, 9}, {1}},
                                      {"blk.0.ffn_up.weight", {1, 16}, {1}}}),
                     index),
            (Lines{"model.layers.0.self_attn.qkv_proj.weight[-1]: 2.00 3.00",
                   "model.layers.0.mlp.gate_up_proj.weight[-1]: 1.00 4.00"}));
}

// llama.cpp's converter permutes the columns of ssm_out where HF has linear_attn.out_proj.
TEST(ImportanceMatrix, ReorderedInputsGetNoRow) {
  for (const auto& [type, rows] : {std::pair{"qwen3_5_moe", 1U}, std::pair{"qwen3_next", 2U}}) {
    ModelFixture model;
    model.config("model_type", type);
    model.bf16("model.layers.0.linear_attn.out_proj.weight", {4, 2});
    model.bf16("model.layers.3.self_attn.q_proj.weight", {4, 2});
    ModelIndex index = model.index();
    EXPECT_EQ(weighted(importance_gguf({{"blk.0.ssm_out.weight", {4, 9}, {1}},
                                        {"blk.3.attn_q.weight", {4, 9}, {1}}}),
                       index)
                  .size(),
              rows);
    EXPECT_EQ(warning_ids(index), rows == 1 ? Lines{"W-IMATRIX-ORDER"} : Lines{}) << type;
  }
}

TEST(ImportanceMatrix, WithoutAStoredMatrixItIsNoOtherModel) {
  ModelFixture model;
  model.config("model_type", "llama");
  model.config("num_attention_heads", 2);
  for (const char* name : {"q_proj", "k_proj", "v_proj", "o_proj"}) {
    model.bf16("model.layers.0.self_attn." + std::string(name) + ".weight", {4, 4});
  }
  ModelIndex index = model.index({.heads = true});
  const auto importance = read(importance_dat({{"blk.0.attn_q.weight", 1, {1, 1, 1, 1}}}));
  std::vector<std::int64_t> heads;
  for (const std::int64_t i : all_of(index)) {
    if (index.matrices[static_cast<std::size_t>(i)].product != nullptr) {
      heads.push_back(i);
    }
  }
  ASSERT_EQ(heads.size(), 4U);
  try {
    weigh_columns(importance, index, heads);
    ADD_FAILURE() << "rows for products";
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("no stored matrix"), std::string::npos)
        << error.what();
  }
  // Products are not among the matrices that have no row.
  std::vector<std::int64_t> selected = all_of(index);
  weigh_columns(importance, index, selected);
  EXPECT_EQ(index.warnings.back().text.find("3 of 4"), 0U) << index.warnings.back().text;
}

TEST(ImportanceMatrix, OfAnotherModelIsRefused) {
  for (const std::string& bytes :
       {importance_dat({{"blk.7.attn_q.weight", 1, {1, 1}}}),
        importance_dat({{"blk.0.attn_q.weight", 0, {1, 1}}}),
        importance_dat({{"blk.0.attn_q.weight", 1, {1, 1, 1}}}),
        importance_dat({{"blk.0.ffn_down_exps.weight", 1, {1, 1, 1, 1}}})}) {
    ModelIndex index = small_gguf_model();
    std::vector<std::int64_t> selected = all_of(index);
    const auto importance = read(bytes);
    EXPECT_EQ(error_of([&] { weigh_columns(importance, index, selected); }), "E-IMATRIX-MODEL");
  }
}

TEST(ImportanceMatrix, MalformedDatFilesAreRefusedAtTheirByte) {
  const std::string good = importance_dat({{"blk.0.attn_q.weight", 1, {1, 2}}, {"b", 1, {3}}});
  EXPECT_EQ(refusal(good), "none");
  EXPECT_EQ(refusal(""), at_byte("E-IMATRIX", 0));
  EXPECT_EQ(refusal(little_endian(std::uint32_t{0})), "E-IMATRIX");
  EXPECT_EQ(refusal(little_endian(std::uint32_t{0xFFFFFFFF}) + good), at_byte("E-IMATRIX", 0));
  EXPECT_EQ(refusal(little_endian(std::uint32_t{0x7FFFFFFF}) + good), at_byte("E-IMATRIX", 0));
  const auto with = [&](std::size_t at, std::uint32_t value) {
    std::string bytes = good;
    bytes.replace(at, 4, little_endian(value));
    return refusal(bytes);
  };
  EXPECT_EQ(with(4, 0), at_byte("E-IMATRIX", 4));
  EXPECT_EQ(with(4, 0x7FFFFFFF), at_byte("E-IMATRIX", 4));
  EXPECT_EQ(with(4, 0x80000000), at_byte("E-IMATRIX", 4));
  const std::size_t calls = 8 + 19;
  EXPECT_EQ(with(calls, 0xFFFFFFFE), at_byte("E-IMATRIX", calls));
  EXPECT_EQ(with(calls + 4, 0), at_byte("E-IMATRIX", calls + 4));
  EXPECT_EQ(with(calls + 4, 0x7FFFFFFF), at_byte("E-IMATRIX", calls + 4));
  EXPECT_EQ(with(calls + 4, 0xFFFFFFFF), at_byte("E-IMATRIX", calls + 4));
  for (const float bad :
       {-1.0F, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    EXPECT_EQ(with(calls + 12, std::bit_cast<std::uint32_t>(bad)),
              at_byte("E-IMATRIX", calls + 12));
  }
  const std::size_t entries_end = good.size() - 15;
  for (std::size_t size = 0; size < entries_end; ++size) {
    EXPECT_NE(refusal(good.substr(0, size)), "none") << size;
  }
  // The trailer came in 2024; what is longer is told.
  EXPECT_EQ(refusal(good.substr(0, entries_end)), "none");
  EXPECT_EQ(refusal(good.substr(0, entries_end + 4)), "none");
  EXPECT_EQ(read(good)->warnings().size(), 0U);
  EXPECT_EQ(read(good + "more")->warnings().size(), 1U);
  EXPECT_EQ(refusal(importance_dat({{"a", 1, {1}}, {"a", 1, {1}}})), at_byte("E-IMATRIX", 4 + 17));
}

TEST(ImportanceMatrix, MalformedGgufFilesAreRefused) {
  EXPECT_EQ(refusal(importance_gguf({{"a", {1, 2}, {1}}})), "none");
  EXPECT_EQ(refusal(importance_gguf({{"a", {1, 2}, {1}}}, "model")), "E-IMATRIX-KIND");
  EXPECT_EQ(refusal(importance_gguf({})), "E-IMATRIX");
  for (const float bad :
       {-1.0F, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    EXPECT_TRUE(refusal(importance_gguf({{"a", {1, bad}, {1}}})).starts_with("E-IMATRIX @ "))
        << bad;
    EXPECT_TRUE(refusal(importance_gguf({{"a", {1, 1}, {bad}}})).starts_with("E-IMATRIX @ "))
        << bad;
  }
  const auto tensors = [](const std::vector<std::pair<std::string, std::uint32_t>>& list) {
    GgufBuilder builder;
    builder.key_string("general.type", "imatrix");
    for (const auto& [name, type] : list) {
      builder.tensor(name, {4}, type, builder.data.size());
      builder.data += std::string(32, '\0');
    }
    return refusal(builder.bytes());
  };
  EXPECT_EQ(tensors({{"a.in_sum2", 0}, {"a.counts", 0}}), "none");
  EXPECT_TRUE(tensors({{"a.in_sum2", 0}}).starts_with("E-IMATRIX @ "));
  EXPECT_TRUE(tensors({{"a.in_sum2", 1}, {"a.counts", 0}}).starts_with("E-IMATRIX @ "));
  EXPECT_TRUE(tensors({{"a.in_sum2", 0}, {"a.counts", 26}}).starts_with("E-IMATRIX @ "));
  // A count for each of more slices than any stack has.
  const auto slices = [](std::size_t count) {
    return refusal(
        importance_gguf({{"a", std::vector<float>(count, 1.0F), std::vector<float>(count, 1.0F)}}));
  };
  EXPECT_EQ(slices(65'536), "none");
  EXPECT_TRUE(slices(65'537).starts_with("E-IMATRIX @ "));
  const std::string good = importance_gguf({{"a", {1, 2, 3, 4, 5, 6, 7, 8}, {1}}});
  EXPECT_NE(refusal(good.substr(0, good.size() - 40)), "none");  // data beyond the end
}

TEST(ImportanceMatrix, RealFileOfTheMixtureBelongsToBothContainers) {
  const std::string path = kData + "/gguf/variants/moe.imatrix.gguf";
  if (!std::filesystem::exists(path)) {
    GTEST_SKIP() << "shared data not found: " << path;
  }
  const auto file = open_importance_matrix(path);
  EXPECT_EQ(file->entries().size(), 4U * 6 + 3 + 3 * 7);
  using Key = std::tuple<std::int32_t, Block, std::string, std::int32_t>;
  std::map<Key, std::vector<double>> factors[2];
  int which = 0;
  for (const char* model : {"/moe", "/moe/kjv-moe-7.6M-BF16.gguf"}) {
    const input::ModelFiles files = input::open_model(kData + model);
    ModelIndex index = index_model(files);
    std::vector<std::int64_t> selected = all_of(index);
    weigh_columns(file, index, selected);
    for (const MatrixRecord& matrix : index.matrices) {
      if (matrix.table == ResultTable::kImatrix) {
        factors[which][{matrix.layer, matrix.block, matrix.role,
                        std::max(matrix.expert, matrix.slice)}] = activation_scale(matrix);
      }
    }
    ++which;
  }
  // q_a, q_b, kv_a, o; the dense MLP; router, shared and routed experts. GGUF has k_b and v_b too.
  EXPECT_EQ(factors[0].size(), 4U * 4 + 3 + 3 * (1 + 3 + 24));
  EXPECT_EQ(factors[1].size(), factors[0].size() + 4 * 2 * 4);
  for (const auto& [key, values] : factors[0]) {
    EXPECT_EQ(factors[1].at(key), values) << std::get<2>(key);
  }
}

}  // namespace
}  // namespace vindex::model::importance_matrix_test
