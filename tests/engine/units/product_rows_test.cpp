// Rows of products measured from files, against the product formed of decoded weights.
#include "commands/decode/decode_tensor.hpp"
#include "engine/units/derived_rows.hpp"
#include "input/model_files.hpp"
#include "input/open/open_model.hpp"
#include "model/index/index_model.hpp"
#include "model/model_index.hpp"
#include "model/products/product.hpp"
#include "tests/support/float_model.hpp"
#include "tests/support/singular_values.hpp"
#include "tests/support/temporary_folder.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <map>

namespace vindex::commands::product_rows_test {
namespace {

using vindex::testing::FloatTensor;
using vindex::testing::noise_tensor;
using vindex::testing::write_gguf;
using vindex::testing::write_safetensors;

class ProductRowsTest : public ::testing::Test {
 protected:
  std::string file(const std::string& name) const { return folder_ / name; }

  /// The whole matrix that a factor is a window of, as `vindex decode` writes it.
  const std::vector<float>& decoded(const std::string& model, const model::MatrixRecord& matrix) {
    std::vector<float>& values = decoded_[{matrix.tensor, matrix.slice}];
    if (values.empty()) {
      const std::string out = file("decoded.f32");
      decode_tensor(model, "", matrix.tensor,
                    matrix.slice < 0 ? std::nullopt : std::optional(matrix.slice), out, true);
      values.resize(std::filesystem::file_size(out) / sizeof(float));
      std::ifstream(out, std::ios::binary)
          .read(reinterpret_cast<char*>(values.data()),
                static_cast<std::streamsize>(values.size() * sizeof(float)));
    }
    return values;
  }

  /// Element (i, j) of a factor as it enters the product.
  double element(const std::string& model, const model::ProductFactor& factor, std::int64_t i,
                 std::int64_t j) {
    const model::MatrixRecord& matrix = *factor.matrix;
    const std::int64_t row = factor.first_row + (factor.transposed ? j : i);
    const std::int64_t col = factor.first_col + factor.col_step * (factor.transposed ? i : j);
    const std::int64_t at = matrix.transposed ? col * matrix.rows + row : row * matrix.cols + col;
    return decoded(model, matrix)[static_cast<std::size_t>(at)];
  }

  std::vector<double> formed(const std::string& model, const model::Product& product) {
    std::vector<double> left;
    std::int64_t rows = 0;
    for (const model::ProductFactor& factor : product.factors) {
      std::vector<double> next;
      if (left.empty()) {
        rows = factor.left();
        for (std::int64_t i = 0; i < rows; ++i) {
          for (std::int64_t j = 0; j < factor.right(); ++j) {
            next.push_back(product.scale * element(model, factor, i, j));
          }
        }
      } else {
        next.assign(static_cast<std::size_t>(rows * factor.right()), 0.0);
        for (std::int64_t l = 0; l < factor.left(); ++l) {
          for (std::int64_t j = 0; j < factor.right(); ++j) {
            const double b = element(model, factor, l, j);
            for (std::int64_t i = 0; i < rows; ++i) {
              next[static_cast<std::size_t>(i * factor.right() + j)] +=
                  left[static_cast<std::size_t>(i * factor.left() + l)] * b;
            }
          }
        }
      }
      left = std::move(next);
    }
    return left;
  }

  /// Every product of `model` is measured and compared; how many there were.
  std::size_t compare(const std::string& model, const model::IndexOptions& options,
                      const std::string& names = "") {
    const input::ModelFiles files =
        input::open_model(model, {.model_config = "", .adapter = options.lora});
    const model::ModelIndex index = model::index_model(files, options);
    engine::ProductMeasurer measurer(files);
    decoded_.clear();
    std::size_t count = 0;
    for (const model::MatrixRecord& row : index.matrices) {
      if (row.product == nullptr || row.tensor.find(names) == std::string::npos) {
        continue;
      }
      EXPECT_EQ(row.unsupported, "") << row.tensor;
      const MatrixReport report = measurer.measure(row);
      const auto expected =
          vindex::testing::singular_values(formed(model, *row.product), row.rows, row.cols);
      EXPECT_EQ(static_cast<std::int64_t>(report.sigma.size()), row.product->rank());
      for (std::size_t i = 0; i < expected.size(); ++i) {
        EXPECT_NEAR(i < report.sigma.size() ? report.sigma[i] : 0.0, expected[i],
                    1e-12 * expected[0])
            << row.tensor << " slice " << row.slice << " value " << i;
      }
      EXPECT_LT(report.check_trace, 1e-12);
      // All factors as they enter, the largest of them once more.
      std::int64_t held = 0, largest = 0;
      for (const model::ProductFactor& factor : row.product->factors) {
        held += factor.rows * factor.cols;
        largest = std::max(largest, factor.rows * factor.cols);
      }
      EXPECT_GE(engine::product_bytes(row),
                sizeof(double) * static_cast<std::uint64_t>(held + largest));
      EXPECT_GT(engine::product_cost(row), 0.0);
      EXPECT_GT(engine::product_read_bytes(row), 0U);
      ++count;
    }
    return count;
  }

  vindex::testing::TemporaryFolder folder_;
  std::map<std::pair<std::string, std::int32_t>, std::vector<float>> decoded_;
};

void write_text(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::vector<FloatTensor> attention(const std::string& prefix) {
  return {noise_tensor(prefix + "q_proj.weight", {24, 20}, 1),
          noise_tensor(prefix + "k_proj.weight", {8, 20}, 2),
          noise_tensor(prefix + "v_proj.weight", {8, 20}, 3),
          noise_tensor(prefix + "o_proj.weight", {20, 24}, 4)};
}

TEST_F(ProductRowsTest, HeadsOfGroupedAttention) {
  write_safetensors(file("model.safetensors"), attention("model.layers.0.self_attn."));
  write_text(file("config.json"),
             R"({"model_type":"llama","num_attention_heads":6,"num_key_value_heads":2})");
  EXPECT_EQ(compare(folder_.path(), {.heads = true}), 12U);

  // Three heads share each key and value: together they read every weight once.
  std::uint64_t bytes = 0;
  for (const model::MatrixRecord& row :
       model::index_model(input::open_model(folder_.path()), {.heads = true}).matrices) {
    bytes += row.product == nullptr ? 0 : engine::product_read_bytes(row);
  }
  EXPECT_NEAR(static_cast<double>(bytes), sizeof(float) * (2.0 * 24 * 20 + 2.0 * 8 * 20), 12.0);
}

TEST_F(ProductRowsTest, FusedAttentionStoredInTimesOut) {
  write_safetensors(file("model.safetensors"),
                    {noise_tensor("h.0.attn.c_attn.weight", {16, 48}, 1),
                     noise_tensor("h.0.attn.c_proj.weight", {16, 16}, 2)});
  write_text(file("config.json"), R"({"model_type":"gpt2","n_head":4})");
  EXPECT_EQ(compare(folder_.path(), {.heads = true}), 8U);
}

// Blocks of 32 along the columns of o_proj, heads of 8 columns.
TEST_F(ProductRowsTest, WindowsInsideBlocksOfCodes) {
  vindex::testing::GgufBuilder builder;
  builder.key_string("general.architecture", "llama")
      .key_u32("llama.attention.head_count", 8)
      .key_u32("llama.attention.head_count_kv", 2);
  std::mt19937 random(7);
  const auto add = [&](const std::string& name, std::uint64_t rows, std::uint64_t cols) {
    builder.tensor(name, {cols, rows}, 8, builder.data.size());
    for (std::uint64_t block = 0; block < rows * cols / 32; ++block) {
      builder.data.push_back('\x33');
      builder.data.push_back(static_cast<char>(0x20 + random() % 16));  // a half near 0.01 to 0.2
      for (int i = 0; i < 32; ++i) {
        builder.data.push_back(static_cast<char>(random()));
      }
    }
    builder.data.resize((builder.data.size() + 31) / 32 * 32, '\0');
  };
  add("blk.0.attn_q.weight", 64, 32);
  add("blk.0.attn_k.weight", 16, 32);
  add("blk.0.attn_v.weight", 16, 32);
  add("blk.0.attn_output.weight", 40, 64);
  write_text(file("model.gguf"), builder.bytes());
  EXPECT_EQ(compare(file("model.gguf"), {.heads = true}), 16U);
}

TEST_F(ProductRowsTest, LoraPairsOfBothContainers) {
  const std::vector<FloatTensor> pairs = {noise_tensor("lora_A", {4, 30}, 1),
                                          noise_tensor("lora_B", {18, 4}, 2)};
  const auto named = [&](const std::string& a, const std::string& b) {
    return std::vector<FloatTensor>{{a, pairs[0].shape, pairs[0].values},
                                    {b, pairs[1].shape, pairs[1].values}};
  };
  std::filesystem::create_directory(file("peft"));
  write_safetensors(file("peft/adapter_model.safetensors"),
                    named("base_model.model.model.layers.0.mlp.up_proj.lora_A.weight",
                          "base_model.model.model.layers.0.mlp.up_proj.lora_B.weight"));
  write_text(file("peft/adapter_config.json"), R"({"peft_type":"LORA","r":4,"lora_alpha":12})");
  write_gguf(file("adapter.gguf"),
             named("blk.0.ffn_up.weight.lora_a", "blk.0.ffn_up.weight.lora_b"),
             [](vindex::testing::GgufBuilder& out) {
               out.key_string("general.architecture", "llama")
                   .key_string("general.type", "adapter")
                   .key_string("adapter.type", "lora")
                   .key("adapter.lora.alpha", 6, out.number(std::bit_cast<std::uint32_t>(12.0F)));
             });
  EXPECT_EQ(compare(file("peft"), {.lora = true}), 1U);
  std::vector<std::vector<double>> spectra;
  for (const std::string& path : {file("peft"), file("adapter.gguf")}) {
    const input::ModelFiles files = input::open_model(path, {.model_config = "", .adapter = true});
    const model::ModelIndex index = model::index_model(files, {.lora = true});
    EXPECT_EQ(index.matrices.back().product->scale, 3.0);
    spectra.push_back(engine::ProductMeasurer(files).measure(index.matrices.back()).sigma);
  }
  EXPECT_EQ(spectra[0], spectra[1]);
}

// The columns of every expert's B are spread over those of all.
TEST_F(ProductRowsTest, ExpertsOfOnePair) {
  const std::string prefix = "base_model.model.model.layers.0.mlp.experts.";
  std::filesystem::create_directory(file("experts"));
  write_safetensors(file("experts/adapter_model.safetensors"),
                    {noise_tensor(prefix + "lora_A.weight", {15, 11}, 1),
                     noise_tensor(prefix + "lora_B.weight", {9, 15}, 2)});
  write_text(file("experts/adapter_config.json"),
             R"({"r":3,"lora_alpha":12,"target_parameters":["mlp.experts.down_proj"]})");
  EXPECT_EQ(compare(file("experts"), {.lora = true}), 5U);

  // All of B is held, however little of it a row is made of.
  const input::ModelFiles files = input::open_model(file("experts"));
  const model::ModelIndex index = model::index_model(files, {.lora = true});
  const model::MatrixRecord& row = index.matrices.back();
  ASSERT_EQ(row.slice, 4);
  model::Product plain = *row.product;
  plain.factors[0].col_step = 1;
  plain.factors[0].first_col = 0;
  model::MatrixRecord narrow = row;
  narrow.product = std::make_shared<const model::Product>(std::move(plain));
  EXPECT_EQ(engine::product_bytes(row), engine::product_bytes(narrow) + sizeof(float) * 9 * 15);
}

// The same weights in two containers: one kv_b for all heads, or a stack for keys and for values.
TEST_F(ProductRowsTest, HeadsOfALatentModelAgreeBetweenContainers) {
  const std::string data = std::string(VINDEX_SHARED_DATA) + "/moe";
  if (!std::filesystem::exists(data)) {
    GTEST_SKIP() << "shared data not found: " << data;
  }
  std::vector<std::vector<std::vector<double>>> spectra;
  for (const std::string& path : {data, data + "/kjv-moe-7.6M-BF16.gguf"}) {
    const input::ModelFiles files = input::open_model(path);
    const model::ModelIndex index = model::index_model(files, {.heads = true});
    engine::ProductMeasurer measurer(files);
    spectra.emplace_back();
    for (const model::MatrixRecord& row : index.matrices) {
      if (row.product != nullptr) {
        spectra.back().push_back(measurer.measure(row).sigma);
      }
    }
  }
  ASSERT_EQ(spectra[0].size(), 4U * 4 * 2);
  ASSERT_EQ(spectra[1].size(), spectra[0].size());
  for (std::size_t i = 0; i < spectra[0].size(); ++i) {
    ASSERT_EQ(spectra[0][i].size(), 64U);
    for (std::size_t k = 0; k < 64; ++k) {
      EXPECT_NEAR(spectra[0][i][k], spectra[1][i][k], 1e-13 * spectra[0][i][0]) << i;
    }
  }
  EXPECT_EQ(compare(data, {.heads = true}, "layers.1.self_attn.qk"), 4U);
  EXPECT_EQ(compare(data, {.heads = true}, "layers.3.self_attn.ov"), 4U);
}

}  // namespace
}  // namespace vindex::commands::product_rows_test
