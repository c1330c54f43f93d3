// Decoders read from the real models of the shared data; skipped where it is absent.
#include "input/model_files.hpp"
#include "input/open/open_model.hpp"
#include "model/index/index_model.hpp"
#include "model/transformer/transformer.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

namespace vindex::model::transformer_real_test {
namespace {

const std::string kData = VINDEX_SHARED_DATA;

/// The model at `path` below the data, and its decoder; nothing where it is absent.
struct Opened {
  explicit Opened(const std::string& path)
      : files(input::open_model(kData + path)),
        index(index_model(files)),
        decoder(read_transformer(files, index)) {}
  input::ModelFiles files;
  ModelIndex index;
  Transformer decoder;
};

bool is_absent(const std::string& path) { return !std::filesystem::exists(kData + path); }

void expect_mixture(const Transformer& decoder) {
  EXPECT_EQ(decoder.hidden, 256);
  EXPECT_EQ(decoder.vocabulary, 256);
  EXPECT_EQ(decoder.context, 256);
  EXPECT_FLOAT_EQ(static_cast<float>(decoder.norm_eps), 1e-6F);
  ASSERT_EQ(decoder.layers.size(), 4U);
  EXPECT_TRUE(decoder.layers[0].dense);
  EXPECT_EQ(decoder.layers[0].dense->neurons, 512);
  EXPECT_FALSE(decoder.layers[0].mixture);
  for (const TransformerLayer& layer : decoder.layers) {
    const Attention& attention = layer.attention;
    EXPECT_EQ(attention.latent_rank, 256);
    EXPECT_EQ(attention.head_dim, 96);
    EXPECT_EQ(attention.value_dim, 64);
    EXPECT_EQ(attention.scale, 1.0 / std::sqrt(96.0));
    EXPECT_EQ(attention.rope.dims, 32);
    EXPECT_TRUE(attention.rope.interleaved);
    ASSERT_EQ(attention.rope.frequencies.size(), 16U);
    EXPECT_NEAR(attention.rope.frequencies[8] / (0.01), 1.0, 2e-7);
  }
  const Mixture& mixture = *decoder.layers[3].mixture;
  EXPECT_EQ(mixture.experts.size(), 8U);
  EXPECT_EQ(mixture.rule.top_k, 2);
  EXPECT_EQ(mixture.rule.scoring, RouterScoring::kSigmoid);
  EXPECT_TRUE(mixture.rule.biased);
  EXPECT_EQ(mixture.selection_bias.count, 8);
  EXPECT_TRUE(mixture.shared);
}

TEST(RealTransformer, MixtureOfHuggingFace) {
  if (is_absent("/moe/config.json")) {
    GTEST_SKIP() << "shared data not found";
  }
  const Opened model("/moe");
  expect_mixture(model.decoder);
  EXPECT_TRUE(model.decoder.layers[1].attention.kv_b);
}

TEST(RealTransformer, MixtureOfGgufHoldsHalvesOfKvB) {
  for (const char* path : {"/moe/kjv-moe-7.6M-BF16.gguf", "/gguf/full/kjv-moe-Q4_K_M.gguf",
                           "/gguf/split/kjv-moe-Q8_0-00001-of-00005.gguf"}) {
    SCOPED_TRACE(path);
    if (is_absent(path)) {
      GTEST_SKIP() << "shared data not found";
    }
    const Opened model(path);
    expect_mixture(model.decoder);
    const Attention& attention = model.decoder.layers[2].attention;
    EXPECT_FALSE(attention.kv_b);
    EXPECT_EQ(attention.k_b_heads.size(), 4U);
    EXPECT_EQ(attention.v_b_heads.size(), 4U);
    EXPECT_TRUE(attention.k_b_transposed);
  }
}

TEST(RealTransformer, VectorsOfBothContainersAreEqual) {
  if (is_absent("/moe/config.json") || is_absent("/moe/kjv-moe-7.6M-BF16.gguf")) {
    GTEST_SKIP() << "shared data not found";
  }
  const Opened a("/moe");
  const Opened b("/moe/kjv-moe-7.6M-BF16.gguf");
  EXPECT_EQ(read_vector(a.files, a.decoder.final_norm), read_vector(b.files, b.decoder.final_norm));
  EXPECT_EQ(read_vector(a.files, a.decoder.layers[3].mixture->selection_bias),
            read_vector(b.files, b.decoder.layers[3].mixture->selection_bias));
  EXPECT_EQ(read_vector(a.files, a.decoder.layers[2].attention.q_a_norm),
            read_vector(b.files, b.decoder.layers[2].attention.q_a_norm));
}

TEST(RealTransformer, LlamaOfGguf) {
  if (is_absent("/stories260k/stories260K.gguf")) {
    GTEST_SKIP() << "shared data not found";
  }
  const Opened model("/stories260k/stories260K.gguf");
  const Transformer& decoder = model.decoder;
  EXPECT_EQ(decoder.hidden, 64);
  EXPECT_EQ(decoder.vocabulary, 512);
  EXPECT_EQ(decoder.layers.size(), 5U);
  EXPECT_EQ(decoder.gating, Gating::kSilu);
  const Attention& attention = decoder.layers[4].attention;
  EXPECT_EQ(attention.heads, 8);
  EXPECT_EQ(attention.kv_heads, 4);
  EXPECT_EQ(attention.head_dim, 8);
  EXPECT_EQ(attention.rope.dims, 8);
  EXPECT_TRUE(attention.rope.interleaved);
  EXPECT_EQ(attention.window, 0);
  ASSERT_TRUE(decoder.layers[4].dense);
  EXPECT_EQ(decoder.layers[4].dense->neurons, 172);
}

}  // namespace
}  // namespace vindex::model::transformer_real_test
