// Rotations by position beside transformers' own numbers, and what of their keys is refused.
#include "transformer_fixture.hpp"

namespace vindex::model::transformer_rope_test {
namespace {

/// A llama of one layer with heads of `dims` components and rope_parameters `parameters`.
MadeDecoder turned(std::int64_t dims, const std::string& parameters,
                   const std::string& type = "llama", const std::string& more = "") {
  const std::string d = std::to_string(dims);
  const std::string q = std::to_string(4 * dims);
  const std::string kv = std::to_string(2 * dims);
  const std::string attention = "self_attn.q_proj " + q + "x32 self_attn.k_proj " + kv +
                                "x32 self_attn.v_proj " + kv + "x32 self_attn.o_proj 32x" + q + " ";
  const std::string fused =
      "self_attn.qkv_proj " + std::to_string(8 * dims) + "x32 self_attn.o_proj 32x" + q + " ";
  return MadeDecoder::config(
             type, more + R"("head_dim": )" + d + R"(, "rope_parameters": )" + parameters + ", ", 1)
      .ends()
      .layer(kPlainNorms + kPlainDense + (type == "phi3" ? fused : attention));
}

void expect_rope(const std::string& parameters, std::int64_t length,
                 const std::vector<double>& frequencies, double factor,
                 const std::string& type = "llama", const std::string& more = "") {
  SCOPED_TRACE(parameters);
  const auto dims = static_cast<std::int64_t>(2 * frequencies.size());
  const Rope rope = turned(dims, parameters, type, more).read().layers[0].attention.rope;
  const RopeOfLength got = rope_of_length(rope, length);
  ASSERT_EQ(got.frequencies.size(), frequencies.size());
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    // theirs are float32
    EXPECT_NEAR(got.frequencies[i] / frequencies[i], 1.0, 3e-7) << i;
  }
  EXPECT_NEAR(got.attention_factor, factor, 1e-12);
}

// Expected numbers: ROPE_INIT_FUNCTIONS of transformers 5.23 on a LlamaConfig of these parameters,
// max_position_embeddings 64 or as given.
TEST(TransformerRope, FrequenciesAreThoseOfTransformers) {
  expect_rope(R"({"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0})", 10,
              {0.25, 0.0250000004, 0.00249999994, 0.000250000012}, 1.0);
  expect_rope(R"({"rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0,
                  "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                  "original_max_position_embeddings": 32})",
              10, {1.0, 0.0311854575, 0.00559017016, 0.00118217699}, 1.0);
}

TEST(TransformerRope, Yarn) {
  const auto yarn = [](const std::string& more, const std::string& base = "10000.0") {
    return R"({"rope_type": "yarn", "rope_theta": )" + base +
           R"(, "factor": 32.0, "original_max_position_embeddings": 4096)" + more + "}";
  };
  const std::vector<double> usual = {1.0,           0.316227764,    0.100000001,    0.0239641368,
                                     0.00515624974, 0.000864685338, 3.12500015e-05, 9.88211832e-06};
  expect_rope(yarn(""), 10, usual, 1.3465735902799727);
  expect_rope(yarn(R"(, "mscale": 1.0, "mscale_all_dim": 0.707)"), 10, usual, 1.0815612985589222);
  expect_rope(yarn(R"(, "attention_factor": 1.5)"), 10, usual, 1.5);
  expect_rope(yarn(R"(, "truncate": false, "beta_fast": 24.0, "beta_slow": 2.0)", "150000.0"), 10,
              {1.0, 0.225418001, 0.0508132726, 0.00624051318, 8.0687154e-05, 1.8188337e-05,
               4.09997847e-06, 9.24208962e-07},
              1.3465735902799727);
}

TEST(TransformerRope, DynamicNtkStretchesWithTheLength) {
  const std::string keys = R"({"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 4.0})";
  expect_rope(keys, 64, {1.0, 0.1, 0.01, 0.001}, 1.0);
  expect_rope(keys, 160, {1.0, 0.0522757955, 0.00273275888, 0.000142857141}, 1.0);
}

TEST(TransformerRope, LongRopeHasTwoSetsOfFactors) {
  const std::string factors = R"("short_factor": [1.0, 1.1, 1.5, 2.0],
      "long_factor": [1.0, 2.0, 4.0, 8.0])";
  const std::vector<double> within = {1.0, 0.0909090936, 0.00666666683, 0.000500000024};
  const std::vector<double> beyond = {1.0, 0.0500000007, 0.00249999994, 0.000125000006};
  const double factor = 1.2247448713915889;
  const std::string keys = R"({"rope_type": "longrope", "rope_theta": 10000.0, "factor": 4.0,
      "original_max_position_embeddings": 16, )" +
                           factors + "}";
  expect_rope(keys, 16, within, factor);
  expect_rope(keys, 17, beyond, factor);
  // phi3's own files: the earlier name, and the original context outside.
  const std::string older = R"({"type": "su", )" + factors + "}";
  const std::string outer = R"("original_max_position_embeddings": 16, )";
  expect_rope(older, 16, within, factor, "phi3", outer);
  expect_rope(older, 64, beyond, factor, "phi3", outer);
}

TEST(TransformerRope, OlderConfigurationsSayTheSame) {
  const auto rope_of = [](const std::string& keys) {
    return MadeDecoder::config("llama", keys, 1)
        .ends()
        .layer(kPlainLayer)
        .read()
        .layers[0]
        .attention.rope.frequencies;
  };
  EXPECT_EQ(rope_of(R"("rope_theta": 5e5, "rope_scaling": {"type": "linear", "factor": 3}, )"),
            rope_of(R"("rope_parameters": {"rope_type": "linear", "factor": 3.0,
                                           "rope_theta": 5e5}, )"));
  EXPECT_EQ(rope_of(R"("rope_theta": 5e5, "rope_scaling": null, )"),
            rope_of(R"("rope_parameters": {"rope_type": "default", "rope_theta": 5e5}, )"));
}

TEST(TransformerRope, LatentScoresGrowWithTheContext) {
  MadeDecoder made =
      MadeDecoder::config("deepseek_v3",
                          kLatentKeys + R"("rope_scaling": {"type": "yarn", "factor": 40,
                              "mscale": 1.0, "mscale_all_dim": 0.5,
                              "original_max_position_embeddings": 4096}, )",
                          1)
          .ends()
          .layer(kPlainNorms + kLatentAttention + kPlainDense);
  const Attention attention = made.read().layers[0].attention;
  const double mscale = 0.1 * 0.5 * std::log(40.0) + 1.0;
  EXPECT_DOUBLE_EQ(attention.scale, mscale * mscale / std::sqrt(20.0));
  EXPECT_DOUBLE_EQ(attention.rope.attention_factor, (0.1 * std::log(40.0) + 1.0) / mscale);
}

TEST(TransformerRope, GgufDividesByStoredFactors) {
  MadeDecoder made = MadeDecoder::gguf("llama", 1).ends().layer(kGgufLayer);
  const std::vector<float> factors = {1, 1, 1, 2, 4, 8, 8, 8};
  const std::int32_t tensor =
      made.fixture->add("rope_freqs.weight", decode::ElementType::kF32, {8});
  std::vector<std::byte> bytes(
      made.fixture->files().tensors[static_cast<std::size_t>(tensor)].offset);
  const auto* values = reinterpret_cast<const std::byte*>(factors.data());
  bytes.insert(bytes.end(), values, values + 32);
  made.fixture->bytes(bytes);
  const Rope rope = made.read().layers[0].attention.rope;
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_NEAR(rope.frequencies[i] /
                    (std::pow(1e4, -static_cast<double>(i) / 8) / static_cast<double>(factors[i])),
                1.0, 2e-7);
  }
}

TEST(TransformerRope, RefusesWhatItDoesNotKnow) {
  const auto outcome = [](const std::string& parameters) {
    return turned(16, parameters).outcome();
  };
  EXPECT_EQ(outcome(R"({"rope_type": "default"})"), "");
  EXPECT_EQ(outcome(R"({"rope_type": "spiral"})"), "E-TRACE-KEY 78");
  EXPECT_EQ(outcome(R"({"rope_type": 3})"), "E-TRACE-KEY 78");
  EXPECT_EQ(outcome(R"([1])"), "E-TRACE-KEY 78");
  EXPECT_EQ(outcome(R"({"rope_type": "linear"})"), "E-TRACE-KEY 78");
  EXPECT_EQ(outcome(R"({"rope_type": "linear", "factor": 0})"), "E-TRACE-KEY 78");
  EXPECT_EQ(outcome(R"({"rope_type": "linear", "factor": -4.0})"), "E-TRACE-KEY 78");
  EXPECT_EQ(outcome(R"({"rope_type": "linear", "factor": "4"})"), "E-TRACE-KEY 78");
  EXPECT_EQ(outcome(R"({"rope_type": "default", "rope_theta": 0})"), "E-TRACE-KEY 78");
  EXPECT_EQ(outcome(R"({"rope_type": "default", "rope_theta": -10000})"), "E-TRACE-KEY 78");
  EXPECT_EQ(outcome(R"({"rope_type": "yarn", "factor": 4, "rope_theta": 1})"), "E-TRACE-KEY 78");
  EXPECT_EQ(outcome(R"({"rope_type": "default", "partial_rotary_factor": 0.5})"), "E-TRACE-KEY 78");
  EXPECT_EQ(outcome(R"({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 4.0,
                        "high_freq_factor": 1.0})"),
            "E-TRACE-KEY 78");
  EXPECT_EQ(outcome(R"({"rope_type": "longrope", "short_factor": [1.0], "long_factor": [1.0]})"),
            "E-TRACE-KEY 78");
  EXPECT_EQ(outcome(R"({"rope_type": "longrope", "short_factor": [0, 1], "long_factor": 1})"),
            "E-TRACE-KEY 78");
  EXPECT_EQ(outcome(R"({"rope_type": "yarn", "factor": 4.0, "llama_4_scaling_beta": 0.1})"),
            "E-TRACE-KEY 78");
  EXPECT_EQ(outcome(R"({"rope_type": "yarn", "factor": 4.0, "mscale": true})"), "E-TRACE-KEY 78");
}

TEST(TransformerRope, QueriesOfMinistral3Grow) {
  const std::string keys = R"({"rope_type": "yarn", "rope_theta": 1e6, "factor": 16.0,
      "original_max_position_embeddings": 8, "mscale": 1.0, "mscale_all_dim": 1.0,
      "llama_4_scaling_beta": 0.1})";
  const Attention attention = turned(16, keys, "ministral3").read().layers[0].attention;
  EXPECT_EQ(attention.growth, 0.1);
  EXPECT_EQ(attention.growth_context, 8);
  EXPECT_EQ(attention.rope.attention_factor, 1.0);
  EXPECT_EQ(attention.scale, 0.25);
  MadeDecoder gguf = MadeDecoder::gguf("mistral3", 1)
                         .real("rope.freq_base", 1e6)
                         .text("rope.scaling.type", "yarn")
                         .real("rope.scaling.factor", 16.0)
                         .number("rope.scaling.original_context_length", 8)
                         .real("rope.scaling.yarn_log_multiplier", 1.0)
                         .real("attention.temperature_scale", 0.1)
                         .ends()
                         .layer(kGgufLayer);
  const Attention same = gguf.read().layers[0].attention;
  EXPECT_EQ(same.growth, 0.1);
  EXPECT_EQ(same.growth_context, 8);
  EXPECT_TRUE(same.rope.interleaved);
  EXPECT_EQ(same.rope.frequencies, attention.rope.frequencies);
  EXPECT_EQ(same.rope.attention_factor, 1.0);
  EXPECT_EQ(turned(16, "{}", "ministral3").outcome(), "E-TRACE-KEY 78");
}

TEST(TransformerRope, NamesTheTypeThatItDoesNotKnow) {
  EXPECT_NE(turned(16, R"({"rope_type": "spiral"})").message().find("spiral"), std::string::npos);
}

}  // namespace
}  // namespace vindex::model::transformer_rope_test
