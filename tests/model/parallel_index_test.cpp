// The same index whatever the number of threads, errors and warnings included.
#include "model_fixture.hpp"

#include "model/inspect/inspect.hpp"
#include "tests/support/expect_error.hpp"

#include <fmt/format.h>

#include <random>

namespace vindex::model::parallel_index_test {
namespace {

constexpr std::int32_t kThreads = 8;

/// Names, places and bytes of every row, and all that `inspect` tells.
std::string text_of(ModelFixture& fixture, const ModelIndex& index) {
  std::string text;
  for (const MatrixRecord& matrix : index.matrices) {
    text += fmt::format("{} {} {} {} {} {} {}x{} {} {} {}+{} {}\n", matrix.tensor, matrix.slice,
                        matrix.layer, matrix.expert, block_name(matrix.block), matrix.role,
                        matrix.rows, matrix.cols, matrix.encoding.label, matrix.unsupported,
                        matrix.codes.offset, matrix.codes.bytes,
                        index.tensors[static_cast<std::size_t>(matrix.tensor_record)].name);
    for (const CompanionPart& companion : matrix.companions) {
      text += fmt::format("  {} {}\n", companion.part.tensor, companion.part.offset);
    }
  }
  return text + inspect_json(fixture.files(), index, true);
}

/// Some 12,000 tensors of all sorts, in random order over two shards.
ModelFixture mixed_model(std::uint32_t seed) {
  ModelFixture fixture;
  fixture.config("model_type", "kimi_k2");
  struct Stored {
    std::string name;
    decode::ElementType type;
    std::vector<std::int64_t> shape;
  };
  std::vector<Stored> tensors;
  using decode::ElementType;
  for (int layer = 0; layer < 20; ++layer) {
    const std::string base = fmt::format("model.layers.{}.", layer);
    for (int expert = 0; expert < 60; ++expert) {
      for (const char* role : {"gate_proj", "up_proj", "down_proj"}) {
        const std::string weight = fmt::format("{}mlp.experts.{}.{}.weight", base, expert, role);
        tensors.push_back({weight + "_packed", ElementType::kI32, {64, 8}});
        tensors.push_back({weight + "_scale", ElementType::kBF16, {64, expert % 7 == 0 ? 3 : 2}});
        if (expert % 5 != 0) {
          tensors.push_back({weight + "_shape", ElementType::kI64, {2}});
        }
      }
    }
    tensors.push_back({base + "self_attn.o_proj.weight", ElementType::kBF16, {32, 64}});
    tensors.push_back({base + "input_layernorm.weight", ElementType::kBF16, {64}});
    tensors.push_back({base + "mlp.experts.gate_up_proj", ElementType::kBF16, {2, 8, 16}});
    tensors.push_back({base + "strange.weight_scale", ElementType::kBF16, {1}});
    tensors.push_back({base + "conv.weight", ElementType::kBF16, {4, 1, 3}});
  }
  std::shuffle(tensors.begin(), tensors.end(), std::mt19937(seed));
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (i == tensors.size() / 2) {
      fixture.add_shard("model-00002-of-00002.safetensors");
    }
    fixture.add(tensors[i].name, tensors[i].type, tensors[i].shape);
  }
  return fixture;
}

TEST(ParallelIndexTest, IsThatOfOneThread) {
  for (std::uint32_t seed = 1; seed <= 3; ++seed) {
    ModelFixture fixture = mixed_model(seed);
    const ModelIndex one = fixture.index({.threads = 1});
    EXPECT_GT(one.matrices.size(), 3'000U);
    EXPECT_FALSE(one.warnings.empty());
    const std::string expected = text_of(fixture, one);
    for (int turn = 0; turn < 3; ++turn) {
      EXPECT_EQ(text_of(fixture, fixture.index({.threads = kThreads})), expected);
    }
  }
}

// A layout that departs from the architecture's is told once, of the first tensor by name.
TEST(ParallelIndexTest, AWarningOfManyTensorsIsThatOfTheFirst) {
  ModelFixture fixture;
  fixture.config("model_type", "gpt_oss");
  for (int layer = 0; layer < 3000; ++layer) {
    const std::string base = fmt::format("model.layers.{}.mlp.experts.", layer);
    fixture.bf16(base + "gate_up_proj", {2, 64, 16});
    fixture.bf16(base + "down_proj", {2, 16, 32});
  }
  const ModelIndex one = fixture.index({.threads = 1});
  const auto count = std::count_if(one.warnings.begin(), one.warnings.end(),
                                   [](const Warning& warning) { return warning.id == "W-LAYOUT"; });
  EXPECT_EQ(count, 1);
  for (int turn = 0; turn < 5; ++turn) {
    const ModelIndex many = fixture.index({.threads = kThreads});
    ASSERT_EQ(many.warnings.size(), one.warnings.size());
    for (std::size_t i = 0; i < one.warnings.size(); ++i) {
      EXPECT_EQ(many.warnings[i].text, one.warnings[i].text);
    }
  }
}

std::string error_of(const ModelFixture& fixture, std::int32_t threads) {
  return testing::message_of([&] { (void)fixture.index({.threads = threads}); });
}

TEST(ParallelIndexTest, OfSeveralErrorsTheFirstByNameIsThrown) {
  ModelFixture fixture;
  fixture.config("model_type", "kimi_k2");
  for (int i = 0; i < 9000; ++i) {
    fixture.bf16(fmt::format("model.layers.{:05}.mlp.up_proj.weight", i), {4, 4});
  }
  const std::int64_t most = std::int64_t{1} << 40U;
  for (const std::size_t i : {8500U, 5000U, 2100U}) {
    fixture.files().tensors[i].shape = {most, most};
  }
  const std::string expected = error_of(fixture, 1);
  EXPECT_EQ(expected.rfind("E-MODEL-TENSOR-SIZE: model.layers.02100.", 0), 0U) << expected;
  for (int turn = 0; turn < 10; ++turn) {
    EXPECT_EQ(error_of(fixture, kThreads), expected);
  }
}

}  // namespace
}  // namespace vindex::model::parallel_index_test
