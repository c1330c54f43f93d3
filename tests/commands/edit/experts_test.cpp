// Adapters of experts against models that hold them one by one or as a stack, either way round.
#include "commands/edit/experts.hpp"

#include "tests/support/expect_error.hpp"
#include "tests/support/float_model.hpp"

#include <gtest/gtest.h>

namespace vindex::edit::experts_test {
namespace {

using testing::error_of;
using testing::noise_tensor;

constexpr std::array kNow = {0, 21, 2};

/// A layer of two experts of `width` hidden units in a model 6 wide.
model::ModelIndex one_by_one(std::int64_t width, const std::string& holder = "mlp") {
  model::ModelIndex index;
  index.shape.architecture = "deepseek_v3";
  for (std::int32_t expert = 0; expert < 2; ++expert) {
    for (const std::string role : {"gate_proj", "up_proj", "down_proj"}) {
      model::MatrixRecord matrix;
      matrix.tensor = "model.layers.1." + holder + ".experts." + std::to_string(expert) + "." +
                      role + ".weight";
      matrix.layer = 1;
      matrix.expert = expert;
      matrix.block = model::Block::kRoutedExpert;
      matrix.role = role;
      matrix.rows = role == "down_proj" ? 6 : width;
      matrix.cols = role == "down_proj" ? width : 6;
      index.matrices.push_back(std::move(matrix));
    }
  }
  return index;
}

model::ModelIndex stack(std::int64_t rows, std::int64_t cols, bool transposed,
                        const std::string& family) {
  model::ModelIndex index;
  index.shape.architecture = family;
  for (std::int32_t expert = 0; expert < 2; ++expert) {
    model::MatrixRecord matrix;
    matrix.tensor = "model.layers.1.mlp.experts.down_proj";
    matrix.slice = matrix.expert = expert;
    matrix.layer = 1;
    matrix.block = model::Block::kRoutedExpert;
    matrix.role = "down_proj";
    matrix.rows = rows;
    matrix.cols = cols;
    matrix.transposed = transposed;
    index.matrices.push_back(std::move(matrix));
  }
  return index;
}

PatchEntry pair(const std::string& role, std::int64_t rows, std::int64_t cols,
                std::optional<std::array<int, 3>> version = kNow) {
  PatchEntry entry;
  entry.tensor = "model.layers.1.mlp.experts." + role;
  entry.slice = 1;
  entry.edit = {rows, cols, 2, noise_tensor("", {2, cols}, 1).values,
                noise_tensor("", {rows, 2}, 2).values};
  entry.parameter = {1, role, 2, version};
  return entry;
}

double element(const LowRankEdit& edit, std::int64_t i, std::int64_t j) {
  double sum = 0.0;
  for (std::int64_t k = 0; k < edit.rank; ++k) {
    sum += static_cast<double>(edit.b[static_cast<std::size_t>(i * edit.rank + k)]) *
           static_cast<double>(edit.a[static_cast<std::size_t>(k * edit.cols + j)]);
  }
  return sum;
}

TEST(Experts, GateAndUpAreCutApart) {
  const model::ModelIndex index = one_by_one(4);
  const PatchEntry whole = pair("gate_up_proj", 8, 6);
  const std::vector<PatchEntry> parts = Experts(index).fitted(whole);
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(parts[0].key(), "model.layers.1.mlp.experts.1.gate_proj.weight");
  EXPECT_EQ(parts[1].key(), "model.layers.1.mlp.experts.1.up_proj.weight");
  for (std::int64_t i = 0; i < 4; ++i) {
    for (std::int64_t j = 0; j < 6; ++j) {
      EXPECT_EQ(element(parts[0].edit, i, j), element(whole.edit, i, j));
      EXPECT_EQ(element(parts[1].edit, i, j), element(whole.edit, 4 + i, j));
    }
  }
}

TEST(Experts, ShapesSayWhichSideIsWhich) {
  const model::ModelIndex index = one_by_one(4);
  const PatchEntry other_way = pair("down_proj", 4, 6, std::nullopt);
  const std::vector<PatchEntry> parts = Experts(index).fitted(other_way);
  ASSERT_EQ(parts.size(), 1U);
  ASSERT_EQ(parts[0].edit.rows, 6);
  EXPECT_NEAR(element(parts[0].edit, 5, 3), element(other_way.edit, 3, 5), 1e-12);
}

/// Whether a square pair made by `version` is turned; "E-..." where it is refused.
std::string taken(const model::ModelIndex& index, std::optional<std::array<int, 3>> version) {
  const PatchEntry entry = pair("down_proj", 6, 6, version);
  std::string out;
  const std::string error = error_of([&] {
    const PatchEntry fitted = Experts(index).fitted(entry).at(0);
    out = element(fitted.edit, 1, 2) == element(entry.edit, 1, 2) ? "straight" : "turned";
  });
  return out.empty() ? error : out;
}

// Held against ParamWrapper of PEFT 0.18.1, 0.19.0, 0.19.1 and 0.21.2.
TEST(Experts, VersionsSayWhichSideOfASquareIsWhich) {
  const model::ModelIndex usual = stack(6, 6, false, "qwen3_moe");
  const model::ModelIndex oss = stack(6, 6, true, "gpt_oss");
  const model::ModelIndex llama4 = stack(6, 6, true, "llama4_text");
  const auto all = [&](std::optional<std::array<int, 3>> version) {
    return taken(usual, version) + " " + taken(oss, version) + " " + taken(llama4, version);
  };
  EXPECT_EQ(all(std::array{0, 18, 1}), "turned straight straight");
  EXPECT_EQ(all(std::array{0, 19, 0}), "turned turned straight");
  EXPECT_EQ(all(std::array{0, 19, 1}), "straight straight turned");
  EXPECT_EQ(all(kNow), "straight straight turned");
  EXPECT_EQ(all(std::nullopt), "E-ADAPTER-PAIR straight E-ADAPTER-PAIR");
}

TEST(Experts, OtherModelsAreRefused) {
  const model::ModelIndex index = one_by_one(4);
  const Experts experts(index);
  EXPECT_EQ(error_of([&] { experts.fitted(pair("gate_up_proj", 10, 6)); }), "E-PATCH-SHAPE");
  PatchEntry three = pair("down_proj", 6, 4);
  three.parameter->experts = 3;
  EXPECT_EQ(error_of([&] { experts.fitted(three); }), "E-PATCH-SHAPE");
  EXPECT_EQ(error_of([&] { Experts(stack(6, 4, false, "x")).fitted(three); }), "E-PATCH-SHAPE");
  PatchEntry plain = pair("down_proj", 6, 4);
  plain.parameter.reset();
  EXPECT_EQ(experts.fitted(plain).at(0).key(), plain.key());
  PatchEntry elsewhere = pair("down_proj", 6, 4);
  elsewhere.parameter->layer = 7;
  EXPECT_EQ(experts.fitted(elsewhere).at(0).key(), elsewhere.key());
}

TEST(Experts, HaveAPlaceInTheStackOfAll) {
  const model::ModelIndex index = one_by_one(4);
  const Experts experts(index);
  const PlaceInStack up = experts.place(index.matrices[4]);
  EXPECT_EQ(up.parameter, "model.layers.1.mlp.experts.gate_up_proj");
  EXPECT_EQ(up.experts, 2);
  EXPECT_EQ(up.rows, 8);
  EXPECT_EQ(up.first_row, 4);
  const PlaceInStack down = experts.place(index.matrices[2]);
  EXPECT_EQ(down.parameter, "model.layers.1.mlp.experts.down_proj");
  EXPECT_EQ(down.rows, 6);

  model::ModelIndex mixtral = one_by_one(4, "block_sparse_moe");
  const auto number_of = [](const std::string& role) {
    return role == "gate_proj" ? "w1" : role == "up_proj" ? "w3" : "w2";
  };
  for (model::MatrixRecord& matrix : mixtral.matrices) {
    matrix.tensor.replace(matrix.tensor.find(matrix.role), matrix.role.size(),
                          number_of(matrix.role));
  }
  EXPECT_EQ(error_of([&] { Experts(mixtral).place(mixtral.matrices[0]); }), "E-LORA-EXPERTS");
  mixtral.shape.architecture = "mixtral";
  EXPECT_EQ(Experts(mixtral).place(mixtral.matrices[0]).parameter,
            "model.layers.1.mlp.experts.gate_up_proj");

  model::ModelIndex without_up = one_by_one(4);
  std::erase_if(without_up.matrices, [](const auto& matrix) { return matrix.role == "up_proj"; });
  EXPECT_EQ(error_of([&] { Experts(without_up).place(without_up.matrices[0]); }), "E-LORA-EXPERTS");
  model::ModelIndex gap = one_by_one(4);
  std::erase_if(gap.matrices, [](const auto& matrix) { return matrix.expert == 0; });
  EXPECT_EQ(error_of([&] { Experts(gap).place(gap.matrices[2]); }), "E-LORA-EXPERTS");
}

}  // namespace
}  // namespace vindex::edit::experts_test
