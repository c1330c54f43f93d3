// What a trace says of activations and logits that are not finite.
#include "commands/trace/trace_run.hpp"
#include "core/process/stop.hpp"
#include "tests/support/trace_models.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <string>

namespace vindex::trace_finite_test {
namespace {

using testing::TemporaryFolder;

class TraceFiniteTest : public ::testing::Test {
 protected:
  /// Two prompts of 3 and 2 tokens through a model of which `tensor` begins with `value`.
  commands::TraceResult trace(const std::string& tensor, float value,
                              const std::string& against = "") {
    const TemporaryFolder models;
    const std::string model = testing::write_trace_model(models, "model");
    change(model, tensor, value);
    commands::TraceSettings settings;
    settings.run.model = model;
    settings.run.backend = engine::BackendChoice::kCpu;
    settings.run.threads = 1;
    settings.run.ram_budget = std::uint64_t{1} << 30U;
    settings.ids = models.write("ids.jsonl", "[0, 5, 6]\n[7, 8]\n");
    settings.losses = true;
    if (!against.empty()) {
      settings.against = model;
      settings.run.model = testing::write_trace_model(models, "plain");
    }
    return commands::trace(settings, {});
  }

  /// Writes the first value of a tensor that is stored as float32.
  static void change(const std::string& model, const std::string& tensor, float value) {
    std::fstream file(model + "/model.safetensors",
                      std::ios::in | std::ios::out | std::ios::binary);
    std::uint64_t size = 0;
    file.read(reinterpret_cast<char*>(&size), sizeof(size));
    std::string header(size, ' ');
    file.read(header.data(), static_cast<std::streamsize>(size));
    const std::size_t entry = header.find("\"" + tensor + "\"");
    const std::size_t at = header.find("data_offsets\":[", entry) + 15;
    file.seekp(static_cast<std::streamoff>(8 + size + std::stoull(header.substr(at))));
    file.write(reinterpret_cast<const char*>(&value), sizeof(value));
  }
};

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST_F(TraceFiniteTest, FiniteOnesAreNotMentioned) {
  const commands::TraceResult result = trace("model.norm.weight", 1.0F);
  EXPECT_FALSE(result.not_finite.any());
  EXPECT_NE(commands::trace_json(result).find("\"not_finite\": null"), std::string::npos);
}

TEST_F(TraceFiniteTest, TheFirstLayerAndItsTokensAreNamed) {
  // Row 0 of the embedding is that of the first prompt's first token, which the others look back
  // at.
  const commands::TraceResult result = trace("model.embed_tokens.weight", kNan);
  EXPECT_EQ(result.not_finite.first_layer, 0);
  EXPECT_EQ(result.not_finite.activation_tokens, 3);
  EXPECT_EQ(result.not_finite.logit_tokens, 3);
  EXPECT_EQ(commands::not_finite_text(result.not_finite, ""),
            "warning W-NOT-FINITE: activations of 3 tokens are not finite from layer 0 on; logits "
            "of 3 tokens are not finite: weights that are not finite, or too large for float32");
}

TEST_F(TraceFiniteTest, WeightsOfALayerAreFoundBehindIt) {
  for (const float value : {kNan, kInfinity}) {
    const commands::TraceResult result = trace("model.layers.1.mlp.down_proj.weight", value);
    EXPECT_EQ(result.not_finite.first_layer, 1);
    EXPECT_EQ(result.not_finite.activation_tokens, 5);
  }
  // 1e38 times what is above 3.4 overflows; the neurons show it.
  const commands::TraceResult large =
      trace("model.layers.2.post_attention_layernorm.weight", 3e38F);
  EXPECT_EQ(large.not_finite.first_layer, 2);
}

TEST_F(TraceFiniteTest, LogitsAloneAreFoundToo) {
  const commands::TraceResult result = trace("lm_head.weight", kInfinity);
  EXPECT_EQ(result.not_finite.first_layer, -1);
  EXPECT_EQ(result.not_finite.logit_tokens, 5);
}

TEST_F(TraceFiniteTest, AModelThatIsComparedIsToldApart) {
  const commands::TraceResult result = trace("model.embed_tokens.weight", kNan, "against");
  EXPECT_FALSE(result.not_finite.any());
  EXPECT_EQ(result.not_finite_against.activation_tokens, 3);
}

}  // namespace
}  // namespace vindex::trace_finite_test
